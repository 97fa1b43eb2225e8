import { run, type RunOptions } from './run.ts'
import { meanRate, type Trace } from './trace.ts'

/** The trace this many times faster is more than any fleet takes at once. */
const FLOOD_SPEED = 1e6

/**
 * Requests a second that a fleet answers when it never runs out of requests: the whole trace is there at the start, the
 * rate is taken over the middle four fifths of the answers, so that neither filling nor draining counts.
 */
export function sustainedRate(trace: Trace, options: RunOptions): number {
  const result = run(trace, { ...options, speed: FLOOD_SPEED, closedLoop: false, clockMs: null })
  const ends = Float64Array.from(result.jobs, ({ endedAt }) => endedAt).sort()
  const from = Math.floor(ends.length * 0.1)
  const to = Math.max(from + 1, Math.floor(ends.length * 0.9))
  const spanS = ((ends[Math.min(to, ends.length - 1)] ?? 0) - (ends[from] ?? 0)) / 1000
  return spanS > 0 ? (to - from) / spanS : Infinity
}

/** How many times faster than recorded a trace must run to be this share of what the fleet sustains. */
export function speedFor(load: number, sustainedPerS: number, trace: Trace): number {
  return (load * sustainedPerS) / meanRate(trace)
}
