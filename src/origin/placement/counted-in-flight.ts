import type { Exchange } from '../exchange.ts'
import type { PoolRoute } from '../pool-route.ts'
import type { Pass } from './placement-passes.ts'
import type { PlacementContext, PlaceResult, PlaceStep } from './place-step.ts'

/** Counts prompts on their way to a cluster chosen among several, so that the next choice expects them there. */
export const countedInFlight =
  (next: PlaceStep): PlaceStep =>
  (pass, exchange, context, route) => {
    const placing = next(pass, exchange, context, route)
    return placing instanceof Promise
      ? placing.then((placed) => counted(placed, { pass, exchange, context, route }))
      : counted(placing, { pass, exchange, context, route })
  }

interface PlaceCall {
  readonly pass: Pass
  readonly exchange: Exchange
  readonly context: PlacementContext
  readonly route: PoolRoute
}

function counted(placed: PlaceResult, { pass, exchange, context, route }: PlaceCall): PlaceResult {
  if (placed === 'unknown_engine' || 'refusal' in placed) return placed
  const isGateway = placed.engine.isGateway === true
  if (!isGateway && !pass.isChosen) return placed
  const sent = context.digests.sent(route, exchange.source.admission(route))
  if (sent !== null) placed.booking.sent(sent)
  // The ledger counts all engines behind another gateway as one.
  return isGateway ? { ...placed, predictedTtftMs: sent?.predictedTtftMs ?? null } : placed
}
