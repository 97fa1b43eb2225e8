import type { SketchData } from '../contract/sketch-data.ts'

/**
 * Quantiles of durations with a relative error, in buckets that grow by a constant factor: DDSketch (Masson, Rim, Lee,
 * VLDB 2019) with its logarithmic mapping over a fixed range, so that two sketches merge by addition and buckets never
 * collapse.
 */
const RELATIVE_ERROR = 0.01

const GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)

const LOG_GAMMA = Math.log(GAMMA)

/** Milliseconds. Shorter durations count as zero, longer ones as the longest. */
const SHORTEST = 1e-3

const LONGEST = 1e9

const FIRST = indexOf(SHORTEST)

const BUCKETS = indexOf(LONGEST) - FIRST + 1

/** Bucket i has (gamma^(i-1), gamma^i]. */
function indexOf(value: number): number {
  return Math.ceil(Math.log(value) / LOG_GAMMA)
}

export class Sketch {
  #zeros = 0
  #sum = 0
  /** Counts of the buckets from `#first` on. */
  #first = 0
  #counts: number[] = []
  /** `#counts` was handed out, so it must be copied before a change. */
  #isShared = false

  /** Ignores invalid durations. */
  add(value: number): void {
    if (!(value >= 0) || value === Infinity) return
    this.#sum += value
    if (value < SHORTEST) this.#zeros += 1
    else this.#put(Math.min(BUCKETS - 1, Math.max(0, indexOf(value) - FIRST)), 1)
  }

  merge({ zeros, first, counts, sum }: SketchData): void {
    this.#zeros += zeros
    this.#sum += sum
    for (const [at, count] of counts.entries()) {
      if (count > 0) this.#put(Math.min(BUCKETS - 1, Math.max(0, first + at)), count)
    }
  }

  /** Current data, copied on the next write: a scrape reads thousands of sketches at once. */
  data(): SketchData {
    this.#isShared = true
    return { zeros: this.#zeros, first: this.#first, counts: this.#counts, sum: this.#sum }
  }

  #put(bucket: number, count: number): void {
    if (this.#isShared) this.#counts = [...this.#counts]
    this.#isShared = false
    const counts = this.#counts
    if (counts.length === 0) this.#first = bucket
    if (bucket < this.#first) {
      counts.unshift(...Array.from({ length: this.#first - bucket }, () => 0))
      this.#first = bucket
    }
    while (counts.length <= bucket - this.#first) counts.push(0)
    counts[bucket - this.#first]! += count
  }
}

/** Counts up to each of `limits`, which are ascending; exact to a hundredth of a limit. */
export function countsUpTo({ zeros, first, counts }: SketchData, limits: readonly number[]): number[] {
  let below = zeros
  let at = 0
  return limits.map((limit) => {
    for (const end = indexOf(limit) - FIRST - first; at <= end && at < counts.length; at++) below += counts[at]!
    return below
  })
}

/** Quantile `q`, exact to a hundredth of its value. null: the sketch is empty. */
export function quantileOf({ zeros, first, counts }: SketchData, q: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, zeros)
  if (total === 0) return null
  const rank = q * (total - 1)
  let below = zeros
  if (rank < below) return 0
  const at = counts.findIndex((count) => rank < (below += count))
  return middleOf(first + (at < 0 ? counts.length - 1 : at))
}

/** Middle of a bucket, a hundredth from both ends. */
function middleOf(bucket: number): number {
  return (2 * GAMMA ** (bucket + FIRST)) / (GAMMA + 1)
}
