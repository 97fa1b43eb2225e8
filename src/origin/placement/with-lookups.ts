import type { PlaceStep } from './place-step.ts'

/** Looks up external caches before a pool is asked. */
export const withLookups =
  (next: PlaceStep): PlaceStep =>
  async (pass, search, route) => {
    const { exchange, context } = search
    // The caches do not matter to a request that is bound to one engine.
    const lookups = exchange.pinned === null ? exchange.source.lookUpCaches?.(route) : null
    if (lookups) context.stages.addAll(await lookups)
    return next(pass, search, route)
  }
