/**
 * Runs the prefill leg, then gives the client's request the parameters that the prefill engine returned (connectors
 * `nixl` and `response`).
 */
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { AttemptContext } from '../attempt-context.ts'
import { callLeg, type LegAnswer } from './call-leg.ts'
import { knownEngines } from '../known-engines.ts'
import { type LegResult, wholeLeg } from './final-leg.ts'
import { decodeParams, REMOTE_DECODE_PARAMS } from './nixl.ts'

export async function prefillLeg(attempt: AttemptContext, prefill: EngineTarget): Promise<LegResult> {
  const { exchange, ports, placed, stages } = attempt
  const { split, limits } = placed.route.pool
  const startedAt = ports.now()
  const { missingKvTransfers } = knownEngines(ports.origin)
  if (missingKvTransfers.isKnown(prefill, exchange.path, startedAt))
    return { last: wholeLeg(attempt, ['kv_transfer=skipped']) }
  const params: Record<string, string> = split.connector === 'nixl' ? { kv_transfer_params: REMOTE_DECODE_PARAMS } : {}
  // A request without `splitting` is not split.
  const { set: one, remove } = exchange.protocol.splitting!.prefillEdit(exchange.json ?? {})
  const body = exchange.body(placed.route, { set: { ...params, ...one }, remove })!
  const leg = await callLeg(attempt, { target: prefill, path: exchange.path, body, limitMs: limits.prefillMs })
  stages.add('prefill_leg', ports.now() - startedAt)
  if (!('answer' in leg)) return leg
  placed.booking.legDone('prefill', stages.snapshot(), leg.answer.usage)
  const set = decodeFields(leg.answer, attempt, prefill)
  const notes = Object.keys(set).length > 0 ? [] : ['kv_transfer=none']
  if (notes.length === 0) missingKvTransfers.transferred(prefill, exchange.path)
  else {
    missingKvTransfers.missed(prefill, exchange.path, ports.now())
    ports.log.warn('kv_transfer_missing', {
      id: exchange.id,
      cluster: placed.route.cluster.id,
      engine: prefill.id,
      path: exchange.path,
    })
  }
  const last = {
    target: placed.engine,
    path: exchange.path,
    body: exchange.body(placed.route, { set, remove: [] }),
    notes,
    transform: null,
  }
  return { last: notes.length > 0 ? last : { ...last, holder: prefill } }
}

/** Fields that the decode leg has in addition to the client's request. */
function decodeFields({ json }: LegAnswer, { placed }: AttemptContext, prefill: EngineTarget): Record<string, string> {
  const { split } = placed.route.pool
  const params = decodeParams(json, prefill, placed.engine)
  return {
    ...(params === null ? {} : { kv_transfer_params: params }),
    ...(split.connector === 'response' ? { [split.responseField]: JSON.stringify(json) } : {}),
  }
}
