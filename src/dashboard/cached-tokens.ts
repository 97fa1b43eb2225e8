import type { Decision } from './wire.ts'

/**
 * Prompt tokens that the engine reported as cached; null if unknown. The decode engine of a split reports the tokens
 * sent to it (NIXL: 0), which is no cache hit.
 */
export function cachedTokensOf({ placement, actual }: Pick<Decision, 'placement' | 'actual'>): number | null {
  const prefilledElsewhere = placement.kind !== 'whole' && placement.prefill !== null
  return prefilledElsewhere ? null : (actual?.cached_tokens ?? null)
}
