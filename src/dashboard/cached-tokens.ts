import type { Decision } from './wire.ts'

/**
 * Prompt tokens the engine had cached, as it reported; null where nobody knows. The decode engine of a split reports what
 * it was sent (NIXL: 0), which says nothing of a cache.
 */
export function cachedTokensOf({ placement, actual }: Pick<Decision, 'placement' | 'actual'>): number | null {
  const prefilledElsewhere = placement.kind !== 'whole' && placement.prefill !== null
  return prefilledElsewhere ? null : (actual?.cached_tokens ?? null)
}
