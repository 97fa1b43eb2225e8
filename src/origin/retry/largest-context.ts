import type { FailedOutcome } from '../attempt-context.ts'

/** Largest context of the engines that refused the request as too long, tokens. null: none did. */
export function largestContext(failed: readonly FailedOutcome[]): number | null {
  let largest: number | null = null
  for (const { limitTokens } of failed)
    if (limitTokens !== undefined && limitTokens > (largest ?? 0)) largest = limitTokens
  return largest
}
