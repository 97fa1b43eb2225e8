/** Routers with the exact state of the engines: references that cannot be deployed. */
import type { Job } from './job.ts'
import type { ReplayEngine } from './replay-engine.ts'
import type { RouterKind } from './router.ts'

/** Costs in ms closer than this are equal. */
const TIE_MS = 0.001

function greedy(
  name: string,
  doc: string,
  costMs: (engine: ReplayEngine, job: Job, now: number) => number,
): RouterKind {
  return {
    name,
    doc,
    source: 'an oracle, not a policy',
    create: ({ engines }) => ({
      name,
      route(job, now) {
        let best = 0
        let min = Infinity
        engines.forEach((engine, at) => {
          const cost = costMs(engine, job, now)
          // Among equals, the engine that has computed the fewest tokens: its cache has the most room.
          const equal = Math.abs(cost - min) <= TIE_MS && engine.computedTokens < engines[best]!.computedTokens
          if (cost < min - TIE_MS || equal) {
            min = Math.min(min, cost)
            best = at
          }
        })
        return { engine: best, predictedTtftMs: min }
      },
      firstToken() {},
      ended() {},
    }),
  }
}

/** Greedy with exact state: every cache, every queue and the true cost model, but no lookahead. */
export const exact = greedy(
  'exact',
  'Least time to first token, from the engines’ true caches and queues.',
  (engine, job, now) => engine.exactTtftMs(job, now),
)

/** Greedy with exact queues and no caches: the value of queue information alone. */
const leastWork = greedy('least_work', 'Shortest queue by true remaining work; caches ignored.', (engine, job, now) =>
  engine.exactColdTtftMs(job, now),
)

/** Fewest requests in flight, exact and cheap enough for thousands of runs. */
export const fewestRequests = greedy(
  'fewest_requests',
  'Fewest requests running and waiting, as the engines count them.',
  (engine) => {
    const { running, waiting } = engine.gauges()
    return running + waiting
  },
)

/** Routers with exact engine state, which cannot be deployed. */
export const oracleKinds: readonly RouterKind[] = [leastWork, exact]
