/** How long ago an engine used what it is believed to hold. The stamp wraps around: moments are compared by difference. */
import { HELD, HOLDING_STRIDE, type Holdings, LIVE, NEXT, NONE, STAMP } from './holdings.ts'

/** When the engine let go of the deepest run it holds on the tree's path; null: that is live, or it holds none. */
export function lastUsed(holdings: Holdings, engine: number): number | null {
  const { path, depth } = holdings.tree
  const { words } = holdings.records
  for (let at = depth - 1; at >= 0; at--) {
    const holding = holdings.find(path[at]!, engine) * HOLDING_STRIDE
    if (holding >= 0) return words[holding + LIVE]! > 0 ? null : words[holding + STAMP]!
  }
  return null
}

/** Of what engines let go, the last run of the one whose last was let go longest ago. */
export function leastRecent(holdings: Holdings): number {
  const { words } = holdings.records
  let oldest = NONE
  for (const { last } of holdings.shares) {
    if (last === NONE) continue
    if (oldest === NONE || ((words[last * HOLDING_STRIDE + STAMP]! - words[oldest * HOLDING_STRIDE + STAMP]!) | 0) < 0) oldest = last
  }
  return oldest
}

/** Blocks of the engine that are live or were let go after that moment. Takes as many steps as they lie in runs. */
export function usedSince(holdings: Holdings, engine: number, stamp: number): number {
  const { words } = holdings.records
  const { first, live } = holdings.shares[engine]!
  let blocks = live
  for (let at = first; at !== NONE && ((words[at * HOLDING_STRIDE + STAMP]! - stamp) | 0) > 0; at = words[at * HOLDING_STRIDE + NEXT]!) {
    blocks += words[at * HOLDING_STRIDE + HELD]!
  }
  return blocks
}
