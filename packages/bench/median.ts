export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]!
}

/** 95 % interval of the median, by order statistics: exact for any distribution. All values if there are fewer than 6. */
export function medianInterval(values: readonly number[]): readonly [low: number, high: number] {
  const sorted = values.toSorted((a, b) => a - b)
  const half = sorted.length / 2
  // Ranks are binomial with p = 1/2: a standard deviation is half the root.
  const rank = Math.max(0, Math.floor(half - 0.98 * Math.sqrt(sorted.length)))
  return [sorted[rank]!, sorted[sorted.length - 1 - rank]!]
}
