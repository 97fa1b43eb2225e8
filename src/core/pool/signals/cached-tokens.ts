import type { CacheHint } from '../../contract/admission.ts'
import { NO_SLOW_TOKENS } from './engine-signals.ts'

/** Leading tokens of a prompt estimated as cached on an engine, by tier. */
export interface CachedTokens {
  /** Total of all tiers. */
  readonly total: number
  /** Tokens of `total` beyond those in faster tiers. */
  readonly host: number
  readonly disk: number
  readonly remote: number
}

export const NOTHING_CACHED: CachedTokens = { total: 0, ...NO_SLOW_TOKENS }

export const NO_HINT = { device: 0, host: 0, disk: 0, remote: 0 }

export const NO_HINTS: ReadonlyMap<string, typeof NO_HINT> = new Map()

/** Longest match per engine and tier. Engines that the pool does not have are never read. */
export function byEngine(hints: readonly CacheHint[]): ReadonlyMap<string, typeof NO_HINT> {
  const found = new Map<string, typeof NO_HINT>()
  for (const { engine, tier, matchedTokens } of hints) {
    if (!(matchedTokens > 0)) continue
    const known = found.get(engine) ?? NO_HINT
    found.set(engine, { ...known, [tier]: Math.max(known[tier], matchedTokens) })
  }
  return found
}
