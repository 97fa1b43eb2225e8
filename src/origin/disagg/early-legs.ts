/** Order of the early legs: those before the final one. */
import type { Placement } from '../../core/contract/placement.ts'
import type { AttemptContext } from '../attempt-context.ts'
import { connectors } from './connectors.ts'
import { encodeStage } from './encode-stage.ts'
import { type LegResult, wholeLeg } from './final-leg.ts'
import { targetOf } from '../rank-targets.ts'

/**
 * Runs the early legs of a split or staged placement, in order. Rejects only if the client disconnects.
 * A stream gets heartbeats meanwhile: on Workers, only a write shows that its client has left.
 */
export function earlyLegs(attempt: AttemptContext): LegResult | Promise<LegResult> {
  const { placement } = attempt.placed
  if (placement.kind === 'whole') return { finalLeg: wholeLeg(attempt) }
  const legs = runLegs(attempt, placement)
  return attempt.exchange.longWait?.during(legs) ?? legs
}

async function runLegs(attempt: AttemptContext, placement: Exclude<Placement, { kind: 'whole' }>): Promise<LegResult> {
  const { route } = attempt.placed
  if (placement.kind === 'staged') {
    const encoded = await encodeStage(attempt, placement.encode)
    if (encoded !== null) return encoded
  }
  const prefill = placement.prefill === null ? undefined : targetOf(route.targets, placement.prefill)
  if (prefill === undefined) return { finalLeg: wholeLeg(attempt) }
  return connectors[route.pool.split.connector].leg(attempt, prefill)
}
