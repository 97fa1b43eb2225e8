import type { PlaceStep } from './place-step.ts'

/** Looks up external caches before a pool is asked. */
export const withLookups =
  (next: PlaceStep): PlaceStep =>
  async (pass, exchange, context, route) => {
    // The caches do not matter to a request that is bound to one engine.
    const lookups = exchange.pinned === null ? exchange.source.hints?.(route) : null
    if (lookups) context.history.stages.addAll(await lookups)
    return next(pass, exchange, context, route)
  }
