/** Prefill on one engine, then the client's own request with what the prefill engine handed over (connectors `nixl` and `response`). */
import type { EngineTarget } from '../../ports.ts'
import type { Deal } from '../attempt-failed.ts'
import type { HandOver } from './last-leg.ts'
import { askLeg, type LegAnswer } from './leg.ts'
import { ASK_TO_HOLD, handedOver } from './nixl.ts'
import { prefillEdit } from './prefill-body.ts'

export async function prefillLeg(deal: Deal, prefill: EngineTarget): Promise<HandOver> {
  const { exchange, ports, placed, stages } = deal
  const { split, limits } = placed.route.pool
  const startedAt = ports.now()
  const ask: Record<string, string> = split.connector === 'nixl' ? { kv_transfer_params: ASK_TO_HOLD } : {}
  const body = exchange.body(placed.route, prefillEdit(exchange.path, exchange.json ?? {}, ask))!
  const leg = await askLeg(deal, { target: prefill, path: exchange.path, body, limitMs: limits.prefillMs })
  stages.add('prefill_leg', ports.now() - startedAt)
  if (!('answer' in leg)) return leg
  placed.booking.legDone('prefill', stages.snapshot(), leg.answer.usage)
  const set = carried(leg.answer, deal, prefill)
  const notes = Object.keys(set).length > 0 ? [] : ['handover=none']
  if (notes.length > 0) ports.log.warn('nothing_handed_over', { id: exchange.id, cluster: placed.route.cluster.id, engine: prefill.id, path: exchange.path })
  const last = { target: placed.engine, path: exchange.path, body: exchange.body(placed.route, { set, remove: [] }), notes, change: null }
  return { last: notes.length > 0 ? last : { ...last, holder: prefill } }
}

/** What the decode leg has beside the client's request. */
function carried({ json }: LegAnswer, { placed }: Deal, prefill: EngineTarget): Record<string, string> {
  const { split } = placed.route.pool
  const params = handedOver(json, prefill, placed.engine)
  return {
    ...(params === null ? {} : { kv_transfer_params: params }),
    ...(split.connector === 'response' ? { [split.responseField]: JSON.stringify(json) } : {}),
  }
}
