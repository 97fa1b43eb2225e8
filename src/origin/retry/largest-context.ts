import type { FailedOutcome } from '../attempt-context.ts'

/** Largest context of the engines that refused the request as too long, tokens. null: none did. */
export function largestContext(failed: readonly FailedOutcome[]): number | null {
  const limits = failed.flatMap(({ limitTokens }) => limitTokens ?? [])
  return limits.length === 0 ? null : Math.max(...limits)
}
