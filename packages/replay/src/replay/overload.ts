import type { RunResult } from './run.ts'
import { quantile } from './statistics.ts'

/** Growth of TTFT over a run that the fleet could not sustain. */
export interface Overload {
  /** Seconds of TTFT added per second of the run. */
  readonly slope: number
  /** Median TTFT of the requests sent in the second and in the last quarter of the run. */
  readonly earlyMs: number
  readonly lateMs: number
}

const QUARTERS = 4

/** Medians of fewer requests are noise. */
const MIN_PER_QUARTER = 5

/**
 * A fleet at utilisation u > 1 adds 1 - 1/u seconds of queueing per second, so this slope is an overload of 5 %.
 */
const MIN_SLOPE = 0.05

const MIN_FACTOR = 1.5

/**
 * Detects that a fleet cannot sustain the pace: TTFT grows from quarter to quarter of the run. The first quarter is
 * skipped, because caches are cold. Returns null if TTFT is stable, or if there are too few requests.
 */
export function overloadOf({ jobs }: Pick<RunResult, 'jobs'>): Overload | null {
  const answered = jobs.filter(({ endedAt }) => endedAt >= 0)
  let from = Infinity
  let until = -Infinity
  for (const { sentAt } of answered) {
    from = Math.min(from, sentAt)
    until = Math.max(until, sentAt)
  }
  const quarterMs = (until - from) / QUARTERS
  const ttfts = Array.from({ length: QUARTERS }, () => [] as number[])
  for (const { sentAt, firstTokenAt } of answered)
    ttfts[Math.min(QUARTERS - 1, Math.floor((sentAt - from) / quarterMs))]?.push(firstTokenAt - sentAt)
  if (ttfts.some(({ length }) => length < MIN_PER_QUARTER)) return null
  const [, second, third, last] = ttfts.map((quarter) => quantile(Float64Array.from(quarter).sort(), 0.5))
  const slope = (last! - second!) / (2 * quarterMs)
  const grows = second! < third! && third! < last! && last! > MIN_FACTOR * second!
  return grows && slope > MIN_SLOPE ? { slope, earlyMs: second!, lateMs: last! } : null
}

/** Multiple of the present pace that a fleet with this overload sustains. At least 0.05: TTFT cannot show less. */
export const sustainableShare = ({ slope }: Overload): number => Math.max(0.05, 1 - slope)
