/** Sums of counters and digests over isolates. */
import type { Totals } from './sync.ts'

/** Adds two trees of numbers. A part that only one of them has is copied. */
export function sumTotals(a: Totals, b: Totals): Totals {
  if (a === null || b === null) return a ?? b
  if (typeof a === 'number' || typeof b === 'number')
    return (typeof a === 'number' ? a : 0) + (typeof b === 'number' ? b : 0)
  if (isList(a) && isList(b))
    return Array.from({ length: Math.max(a.length, b.length) }, (_, at) => sumTotals(a[at] ?? null, b[at] ?? null))
  if (isList(a) || isList(b)) return a
  const keys = new Set([...Object.keys(a), ...Object.keys(b)])
  return Object.fromEntries(Array.from(keys, (key) => [key, sumTotals(a[key] ?? null, b[key] ?? null)]))
}

export const isList = (value: Totals): value is readonly Totals[] => Array.isArray(value)
