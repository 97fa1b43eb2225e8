/** Price of new work by the queues of the engines. */

/** Upper limit of `pressureOf`, that of a mean queue of two: a longer queue is a burst, not sustained load. */
const MAX_PRESSURE = 8

/** Weight of the engine's own queue against the mean of all: new work delays it first, and then all others. */
const OWN_QUEUE_SHARE = 0.25

/**
 * Number of requests that a second of new work delays. In an M/M/1 queue with n waiting requests and load ρ, the
 * marginal delay is dL/dρ = 1/(1 - ρ)² = (1 + n)². Without this term an overloaded fleet prefers short queues to cache
 * hits, computes more, and gets longer queues. n is counted, because a wait in seconds depends on what is cached.
 * @param mean queued prefills per engine; @param own queued prefills of the engine
 */
export function pressureOf(mean: number, own: number): number {
  return Math.min(MAX_PRESSURE, (1 + mean) * (1 + mean + OWN_QUEUE_SHARE * (own - mean)) - 1)
}

/**
 * Queued prefills of an engine as expected from the present mean of all. Fast engines usually have longer queues than
 * slow ones, and a large cache a longer one than a small. With one mean for all, the price of work is too low on just
 * those engines that have most of it. The present queue of one engine says less: it is a burst.
 * @param usual queued prefills that the engine usually has; @param meanUsual those of the average engine
 */
export function expectedQueued(mean: number, usual: number, meanUsual: number): number {
  return ((1 + mean) * (1 + usual)) / (1 + meanUsual) - 1
}
