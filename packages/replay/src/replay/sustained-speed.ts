import { exact } from './oracles.ts'
import { type FleetPlan, optionsOf, type Pace } from './plan.ts'
import { run, type RunOptions } from './run.ts'
import { meanRate, type Trace } from './trace.ts'

/** So slow that requests rarely overlap. */
const TRICKLE = 1 / 64

/** The fleet is at its limit when mean TTFT is this many times that of an idle fleet. */
const LIMIT_FACTOR = 4

const HALVINGS = 5

const FASTEST = 1e4

/**
 * Finds how many times faster than recorded the fleet can serve the trace: the speed at which mean TTFT is four times
 * that of an idle fleet, within 4 %. Maximum throughput is less meaningful, because saturation also destroys the
 * caches. Throws a RangeError if no speed loads the fleet.
 */
function sustainedSpeed(trace: Trace, options: RunOptions): number {
  const ttftMs = (speed: number) => meanTtftMs(trace, { ...options, speed, clockMs: null })
  const limitMs = LIMIT_FACTOR * ttftMs(TRICKLE)
  let high = 1
  if (ttftMs(high) <= limitMs) while (high < FASTEST && ttftMs(high * 2) <= limitMs) high *= 2
  else while (high > TRICKLE && ttftMs(high / 2) > limitMs) high /= 2
  if (high >= FASTEST)
    throw new RangeError(`${trace.requests.length} requests are too few to load this fleet, even all at once`)
  // The limit is between one of these speeds and its double.
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

/** Requests per second at this speed. */
export function rateAt(speed: number, trace: Trace): number {
  return speed * meanRate(trace)
}

/** Computes the speed of a load: a share of what the fleet sustains with `exact`. */
export function speedOf(load: number, trace: Trace, fleet: FleetPlan, pace: Omit<Pace, 'speed'>): number {
  return load * sustainedSpeed(trace, optionsOf(trace, fleet, exact, { ...pace, speed: 1 }))
}

/**
 * `speedOf` for several loads of one trace on one fleet. The sustained speed takes twenty runs to find and is computed
 * once per seed.
 */
export function speedsOn(fleet: FleetPlan): (load: number, trace: Trace, pace: Omit<Pace, 'speed'>) => number {
  const sustained = new Map<number, number>()
  return (load, trace, pace) => {
    const full = sustained.get(pace.seed) ?? speedOf(1, trace, fleet, pace)
    sustained.set(pace.seed, full)
    return load * full
  }
}
