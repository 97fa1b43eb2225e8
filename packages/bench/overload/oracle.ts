/**
 * Static rules with the engines' true state: the best of them is the mark for admission control at four times the load.
 * Each places a request on the engine with the soonest true first token and refuses it beyond 5 s, or if the decode
 * step would be longer than a fixed bound.
 */
import type { ReplayEngine } from '../../replay/src/replay/replay-engine.ts'
import type { RouterKind } from '../../replay/src/replay/router.ts'
import type { Job } from '../../replay/src/replay/job.ts'
import { SLO } from './run.ts'

/** Decode step with one more request by the cost model of the `agentic` profile (vllm-router's), ms. */
function stepMs(engine: ReplayEngine, blockTokens: number): number {
  const { running, waiting, kvUsage } = engine.gauges()
  const contextTokens = kvUsage * engine.cacheBlocks * blockTokens
  return 10.635 + 0.41928 * (running + waiting + 1) + 1.42e-4 * contextTokens
}

const BOUNDS_MS = [Infinity, 20, 30, 40, 50, 60, 70]

export const oracleKinds: readonly RouterKind[] = BOUNDS_MS.map((boundMs) => ({
  name: `exact_state_${boundMs}`,
  doc: 'Soonest true first token; refuses late requests and long decode steps.',
  source: 'an oracle, not a policy',
  create: ({ engines, blockTokens }) => ({
    name: `exact_state_${boundMs}`,
    route(job: Job, now: number) {
      let best: { readonly engine: number; readonly ttftMs: number } | null = null
      for (const [at, engine] of engines.entries()) {
        const ttftMs = engine.exactTtftMs(job, now)
        if (ttftMs > SLO.ttftMs! || stepMs(engine, blockTokens) > boundMs) continue
        if (best === null || ttftMs < best.ttftMs) best = { engine: at, ttftMs }
      }
      return best === null ? null : { engine: best.engine, predictedTtftMs: best.ttftMs }
    },
    firstToken() {},
    ended() {},
  }),
}))
