import { run, type RunOptions } from './run.ts'
import { meanRate, type Trace } from './trace.ts'

/** So slow that requests seldom meet. */
const TRICKLE = 1 / 64
/** A fleet is at its limit when queues make users wait this many times as long as they would alone. */
const LIMIT_FACTOR = 4
const HALVINGS = 5
const FASTEST = 1e4

/**
 * How many times faster than recorded the fleet can be sent the trace: the speed at which the mean time to first token
 * is four times that of a trickle, within 4 %. What throughput a flood would reach says little: it also destroys the
 * caches, which no operator would let happen.
 */
export function sustainedSpeed(trace: Trace, options: RunOptions): number {
  const ttftMs = (speed: number) => meanTtftMs(trace, { ...options, speed, clockMs: null })
  const limitMs = LIMIT_FACTOR * ttftMs(TRICKLE)
  let high = 1
  if (ttftMs(high) <= limitMs) while (high < FASTEST && ttftMs(high * 2) <= limitMs) high *= 2
  else while (high > TRICKLE && ttftMs(high / 2) > limitMs) high /= 2
  // The limit lies between one of these and its double.
  let low = ttftMs(high) <= limitMs ? high : high / 2
  high = low * 2
  for (let halving = 0; halving < HALVINGS; halving += 1) {
    const middle = Math.sqrt(low * high)
    if (ttftMs(middle) <= limitMs) low = middle
    else high = middle
  }
  return low
}

function meanTtftMs(trace: Trace, options: RunOptions): number {
  const { jobs } = run(trace, options)
  return jobs.reduce((sum, { firstTokenAt, sentAt }) => sum + (firstTokenAt - sentAt), 0) / Math.max(1, jobs.length)
}

/** Requests a second that this speed means. */
export function rateAt(speed: number, trace: Trace): number {
  return speed * meanRate(trace)
}
