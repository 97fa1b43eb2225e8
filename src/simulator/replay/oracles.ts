/** Routers nobody could run: they know the engines' true state. The marks to aim at. */
import type { ReplayEngine } from './engines.ts'
import type { Job } from './trace.ts'
import type { RouterKind } from './router.ts'

/** Closer than this is equal. */
const TIE_MS = 0.001

function greedy(
  name: string,
  doc: string,
  costMs: (engine: ReplayEngine, job: Job, now: number) => number,
): RouterKind {
  return {
    name,
    doc,
    source: 'a mark, not a policy',
    create: ({ engines }) => ({
      name,
      route(job, now) {
        let best = 0
        let least = Infinity
        engines.forEach((engine, at) => {
          const cost = costMs(engine, job, now)
          // Of equals the one that has worked least: its cache has most room.
          const equal = Math.abs(cost - least) <= TIE_MS && engine.computedTokens < engines[best]!.computedTokens
          if (cost < least - TIE_MS || equal) {
            least = Math.min(least, cost)
            best = at
          }
        })
        return { engine: best, predictedTtftMs: least }
      },
      firstToken() {},
      ended() {},
    }),
  }
}

/** Greedy with exact state: every cache, every queue, the true law; but no look into the future. */
export const exact = greedy(
  'exact',
  'Least time to first token, from the engines’ true caches and queues.',
  (engine, job, now) => engine.exactTtftMs(job, now),
)

/** As if nobody had a cache: what knowing the queues alone is worth. */
export const leastWork = greedy(
  'least_work',
  'Shortest queue by true remaining work; caches ignored.',
  (engine, job, now) => engine.exactColdTtftMs(job, now),
)

/** Who counts requests alone, exactly, and has no books to keep: quick enough for thousands of runs. */
export const fewestRequests = greedy(
  'fewest_requests',
  'Fewest requests running and waiting, as the engines count them.',
  (engine) => {
    const { running, waiting } = engine.gauges()
    return running + waiting
  },
)
