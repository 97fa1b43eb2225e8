import type { PoolRoute } from '../pool-route.ts'
import type { Pass } from './placement-passes.ts'
import type { PlacementSearch, PlaceResult, PlaceStep } from './place-step.ts'

/** Counts prompts on their way to a cluster chosen among several, so that the next choice expects them there. */
export const countedInFlight =
  (next: PlaceStep): PlaceStep =>
  (pass, search, route) => {
    const placing = next(pass, search, route)
    return placing instanceof Promise
      ? placing.then((placed) => counted(placed, pass, search, route))
      : counted(placing, pass, search, route)
  }

function counted(
  placed: PlaceResult,
  pass: Pass,
  { exchange, context }: PlacementSearch,
  route: PoolRoute,
): PlaceResult {
  if (placed === 'unknown_engine' || 'refusal' in placed) return placed
  const isGateway = placed.engine.kind === 'gateway'
  if (!isGateway && !pass.isChosen) return placed
  const sent = context.digests.sent(route, exchange.source.admission(route))
  if (sent !== null) placed.booking.sent(sent)
  // The ledger counts all engines behind another gateway as one.
  return isGateway ? { ...placed, predictedTtftMs: sent?.predictedTtftMs ?? null } : placed
}
