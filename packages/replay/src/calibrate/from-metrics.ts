import type { StepCostModel } from '../../../simulator/src/step-cost.ts'

/** Cumulative counters of one engine at one time, from its metrics. */
export interface Totals {
  /** Number of finished prefills, their total seconds, and the tokens they computed. */
  readonly prefills: number
  readonly prefillS: number
  readonly prefillTokens: number
  /** Number of inter-token gaps and their sum. */
  readonly gaps: number
  readonly gapS: number
  readonly running: number
}

const NAMES = {
  prefills: 'vllm:request_prefill_time_seconds_count',
  prefillS: 'vllm:request_prefill_time_seconds_sum',
  prefillTokens: 'vllm:request_prefill_kv_computed_tokens_sum',
  gaps: 'vllm:inter_token_latency_seconds_count',
  gapS: 'vllm:inter_token_latency_seconds_sum',
  running: 'vllm:num_requests_running',
} as const

/** Reads the counters. Throws a RangeError that names a missing metric. */
export function readTotals(text: string): Totals {
  const values = new Map<string, number>()
  for (const line of text.split('\n')) {
    const name = /^(vllm:[a-z_]+)[{ ]/.exec(line)?.[1]
    if (name !== undefined) values.set(name, (values.get(name) ?? 0) + Number(line.slice(line.lastIndexOf(' ') + 1)))
  }
  const read = (name: string) => {
    const value = values.get(name)
    if (value === undefined || !Number.isFinite(value)) throw new RangeError(`the metrics have no ${name}`)
    return value
  }
  return Object.fromEntries(Object.entries(NAMES).map(([key, name]) => [key, read(name)])) as unknown as Totals
}

/** Minimum number of busy intervals for a fit. */
const MIN_INTERVALS = 5

/**
 * Fits the step cost to the counters of a running engine: prefill seconds against tokens, and seconds between tokens
 * against running requests, per interval. Pair and context terms stay 0, because counters do not distinguish one long
 * prompt from many short ones. Throws a RangeError if there is too little data.
 */
export function costModelFromTotals(totals: readonly Totals[]): StepCostModel {
  const prefill: Point[] = []
  const decode: Point[] = []
  for (let at = 1; at < totals.length; at += 1) {
    const [from, to] = [totals[at - 1]!, totals[at]!]
    const prefills = to.prefills - from.prefills
    const gaps = to.gaps - from.gaps
    if (prefills > 0)
      prefill.push({
        x: (to.prefillTokens - from.prefillTokens) / prefills,
        y: ((to.prefillS - from.prefillS) * 1000) / prefills,
        weight: prefills,
      })
    if (gaps > 0)
      decode.push({ x: (from.running + to.running) / 2, y: ((to.gapS - from.gapS) * 1000) / gaps, weight: gaps })
  }
  if (prefill.length < MIN_INTERVALS || decode.length < MIN_INTERVALS)
    throw new RangeError(
      `only ${prefill.length} intervals with finished prefills and ${decode.length} with tokens; at least ` +
        `${MIN_INTERVALS} of each are needed`,
    )
  const first = fitLine(prefill)
  const next = fitLine(decode)
  return {
    stepMs: next.base,
    prefillStepMs: Math.max(0, first.base - next.base),
    prefillTokenMs: first.slope,
    prefillPairMs: 0,
    decodeSequenceMs: next.slope,
    decodeContextTokenMs: 0,
    encodeItemMs: 0,
    transferMs: 0,
    transferTokenMs: 0,
  }
}

interface Point {
  readonly x: number
  readonly y: number
  readonly weight: number
}

/** Weighted least squares with non-negative coefficients. */
function fitLine(points: readonly Point[]): { readonly base: number; readonly slope: number } {
  const sum = (of: (point: Point) => number) => points.reduce((total, point) => total + point.weight * of(point), 0)
  const weight = sum(() => 1)
  const meanX = sum(({ x }) => x) / weight
  const meanY = sum(({ y }) => y) / weight
  const spread = sum(({ x }) => (x - meanX) ** 2)
  const slope = spread === 0 ? 0 : Math.max(0, sum(({ x, y }) => (x - meanX) * (y - meanY)) / spread)
  const base = meanY - slope * meanX
  return base >= 0 ? { base, slope } : { base: 0, slope: meanX === 0 ? 0 : meanY / meanX }
}
