/** Routers nobody could run: they know the engines' true state. The marks to aim at. */
import type { ReplayEngine } from './engines.ts'
import type { Job } from './job.ts'
import type { RouterKind } from './router.ts'

function greedy(name: string, doc: string, costMs: (engine: ReplayEngine, job: Job, now: number) => number): RouterKind {
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
          if (cost < least - 1e-6) {
            least = cost
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
export const exact = greedy('exact', 'Least time to first token, from the engines’ true caches and queues.', (engine, job, now) => engine.exactTtftMs(job, now))

/** As if nobody had a cache: what knowing the queues alone is worth. */
export const leastWork = greedy('least_work', 'Shortest queue by true remaining work; caches ignored.', (engine, job, now) => engine.exactColdTtftMs(job, now))
