import type { KeyLimits } from './key-limits.ts'

/** Place of this gateway among those that share the limits. */
export interface LimitShare {
  readonly count: number
  /** From 0. */
  readonly index: number
}

/** Limits of one gateway while it counts alone. The shares of all gateways add up to the limits. */
export function shareOf(limits: KeyLimits, { count, index }: LimitShare): KeyLimits {
  const part = (limit: number | null): number | null =>
    limit === null ? null : Math.floor(limit / count) + (index < limit % count ? 1 : 0)
  return {
    requestsPerMin: part(limits.requestsPerMin),
    tokensPerMin: part(limits.tokensPerMin),
    tokensPerDay: part(limits.tokensPerDay),
    concurrent: part(limits.concurrent),
  }
}
