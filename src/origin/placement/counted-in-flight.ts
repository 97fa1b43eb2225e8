import type { PlaceStep } from './place-step.ts'

/** Counts prompts on their way to a cluster chosen among several, so that the next choice expects them there. */
export const countedInFlight =
  (next: PlaceStep): PlaceStep =>
  async (pass, exchange, context, route) => {
    const placed = await next(pass, exchange, context, route)
    if (placed === 'unknown_engine' || 'refusal' in placed) return placed
    const isGateway = placed.engine.isGateway === true
    if (!isGateway && !pass.isChosen) return placed
    const sent = context.digests.sent(route, exchange.admission(route))
    if (sent !== null) placed.booking.sent(sent)
    // The ledger counts all engines behind another gateway as one.
    return isGateway ? { ...placed, predictedTtftMs: sent?.predictedTtftMs ?? null } : placed
  }
