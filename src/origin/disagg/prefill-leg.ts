/**
 * Runs the prefill leg, then gives the client's request the parameters that the prefill engine returned (connectors
 * `nixl` and `response`).
 */
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { AttemptContext } from '../attempt-context.ts'
import { callLeg, type LegAnswer } from './call-leg.ts'
import { knownEngines } from '../known-engines.ts'
import { type FinalLeg, type LegResult, wholeLeg } from './final-leg.ts'
import { decodeParams, REMOTE_DECODE_PARAMS } from './nixl.ts'

/** Bodies of the two legs. */
interface LegBodies {
  readonly body: readonly Uint8Array[]
  /**
   * Body of the decode leg by the prefill answer. `none`: nothing is transferred; `final`: nothing is left to transfer.
   * The decode engine then computes the prompt.
   */
  decodeBody(answer: LegAnswer): readonly Uint8Array[] | 'none' | 'final'
}

export function prefillLeg(attempt: AttemptContext, prefill: EngineTarget): Promise<LegResult> {
  const { exchange, placed } = attempt
  const { split } = placed.route.pool
  const params: Record<string, string> = split.connector === 'nixl' ? { kv_transfer_params: REMOTE_DECODE_PARAMS } : {}
  // A request without `splitting` is not split.
  const { set: one, remove } = exchange.protocol.splitting!.prefillEdit(exchange.source.json ?? {})
  return prefillLegWith(attempt, prefill, {
    body: exchange.source.body(placed.route, { set: { ...params, ...one }, remove })!,
    decodeBody(answer) {
      const set = decodeFields(answer, attempt, prefill)
      return Object.keys(set).length === 0 ? 'none' : exchange.source.body(placed.route, { set, remove: [] })!
    },
  })
}

/** Runs the prefill leg, and then reads from its answer what the decode leg gets. */
export async function prefillLegWith(
  attempt: AttemptContext,
  prefill: EngineTarget,
  bodies: LegBodies,
): Promise<LegResult> {
  const { exchange, ports, placed, stages } = attempt
  const { limits } = placed.route.pool
  const startedAt = ports.now()
  const { missingKvTransfers } = knownEngines(ports.origin)
  if (missingKvTransfers.isKnown(prefill, exchange.path, startedAt))
    return { finalLeg: wholeLeg(attempt, ['kv_transfer=skipped']) }
  const leg = await callLeg(attempt, {
    target: prefill,
    path: exchange.path,
    body: bodies.body,
    limitMs: limits.prefillMs,
  })
  stages.add('prefill_leg', ports.now() - startedAt)
  if (!('answer' in leg)) return leg
  placed.booking.legDone('prefill', stages.snapshot(), leg.answer.usage)
  const body = bodies.decodeBody(leg.answer)
  if (body === 'final') return { finalLeg: wholeLeg(attempt, ['kv_transfer=final']) }
  if (body === 'none') return { finalLeg: afterMissing(attempt, prefill) }
  missingKvTransfers.transferred(prefill, exchange.path)
  const finalLeg = { target: placed.engine, path: exchange.path, body, notes: [], transform: null }
  return { finalLeg: { ...finalLeg, holder: prefill } }
}

function afterMissing(attempt: AttemptContext, prefill: EngineTarget): FinalLeg {
  const { exchange, ports, placed } = attempt
  knownEngines(ports.origin).missingKvTransfers.missed(prefill, exchange.path, ports.now())
  ports.log.warn('kv_transfer_missing', {
    id: exchange.id,
    cluster: placed.route.cluster.id,
    engine: prefill.id,
    path: exchange.path,
  })
  return wholeLeg(attempt, ['kv_transfer=none'])
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
