/** Values of one decision: its key, engine, stages, time to first token and cached tokens. */
import type { Decision } from './wire.ts'

/**
 * Prompt tokens that the engine reported as cached; null if unknown. The decode engine of a split reports the tokens
 * sent to it (NIXL: 0), which is no cache hit.
 */
export function cachedTokensOf({ placement, actual }: Pick<Decision, 'placement' | 'actual'>): number | null {
  const prefilledElsewhere = placement.kind !== 'whole' && placement.prefill !== null
  return prefilledElsewhere ? null : (actual?.cached_tokens ?? null)
}

/** Name of the engine that answers. */
export function engineOf({ placement }: Decision): string {
  if (placement.kind === 'whole') return placement.engine
  return placement.prefill === null ? placement.decode : `${placement.prefill} → ${placement.decode}`
}

/** A retry is a separate decision. */
export const keyOf = ({ id, attempt }: Pick<Decision, 'id' | 'attempt'>): string => `${id}#${attempt}`

/** Milliseconds to the first token, also while the answer still streams; null: not known. */
export const ttftOf = ({ actual, first_token: first }: Decision): number | null =>
  actual?.ttft_ms ?? first?.ttft_ms ?? null

/** Stages up to the first token. */
export const stagesOf = ({ actual, first_token: first }: Decision) => actual?.stages ?? first?.stages

export const isMeasured = ({ actual, first_token: first }: Decision): boolean => actual !== null || first !== undefined
