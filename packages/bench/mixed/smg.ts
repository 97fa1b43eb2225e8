/** Policies of SMG (successor of the SGLang router) with its defaults, from its source of 2026-08. */
import { hashPair } from '../../../src/core/routing/placement-hash.ts'
import type { Job } from '../../replay/src/replay/job.ts'
import { indexOfMin, InFlight } from '../../replay/src/replay/baselines/in-flight.ts'
import type { ReplayEngine } from '../../replay/src/replay/replay-engine.ts'
import type { RouterKind } from '../../replay/src/replay/router.ts'
import { VllmEngine } from '../../replay/src/replay/vllm-engine.ts'

const SOURCE = 'lightseekorg/smg, August 2026, defaults'

const VIRTUAL_NODES = 160
const MAX_LOAD = 1.25

/** Hash of the first 256 tokens on a ring; walks on from engines with more than 1.25 times the mean load. */
export const smgPrefixHash: RouterKind = {
  name: 'smg_prefix_hash',
  doc: 'Hash of the first 256 tokens on a ring, with bounded load.',
  source: SOURCE,
  create({ engines }) {
    const load = new InFlight(engines.length)
    const ring = engines
      .flatMap((_, engine) =>
        Array.from({ length: VIRTUAL_NODES }, (__, node) => ({ engine, at: hashPair(engine + 1, node + 1) })),
      )
      .sort((one, other) => one.at - other.at)
    return {
      name: 'smg_prefix_hash',
      route({ blocks, index }) {
        const key = blocks.length === 0 ? hashPair(index, 0) : hashPair(blocks[0]!, blocks[1]!)
        const total = load.counts.reduce((sum, count) => sum + count, 0)
        const limit = (MAX_LOAD * (total + 1)) / engines.length
        const start = Math.max(
          0,
          ring.findIndex(({ at }) => at >= key),
        )
        let engine = ring[start]!.engine
        for (let step = 0; step < ring.length && load.counts[engine]! + 1 > Math.max(1, limit); step += 1)
          engine = ring[(start + step) % ring.length]!.engine
        load.begin(engine)
        return { engine }
      },
      firstToken() {},
      ended: (job) => load.end(job),
    }
  },
}

const POLL_MS = 10_000
const TOKENS_PER_S = 2_000
const BARRIER = 0.15
const MAX_USAGE = 0.999

/** Prompt tokens that wait on the engine, as its load report has them. */
function waitingTokens(engine: ReplayEngine): number {
  return engine instanceof VllmEngine ? engine.model.queuedPromptTokens() : 0
}

/** Shortest drain time of waiting tokens, with a barrier for KV memory; loads are polled every 10 s. */
export const smgLoad: RouterKind = {
  name: 'smg_least_load',
  doc: 'Waiting and since dispatched tokens at 2,000 a second, and KV pressure.',
  source: SOURCE,
  create({ engines }) {
    const polled = engines.map(() => ({ tokens: 0, kvUsage: 0 }))
    const dispatched = new Float64Array(engines.length)
    return {
      name: 'smg_least_load',
      scrapeMs: POLL_MS,
      scrape() {
        for (const [at, engine] of engines.entries())
          polled[at] = { tokens: waitingTokens(engine), kvUsage: Math.min(MAX_USAGE, engine.gauges().kvUsage) }
        dispatched.fill(0)
      },
      route({ promptTokens }: Job) {
        const scores = polled.map(
          ({ tokens, kvUsage }, at) => (tokens + dispatched[at]!) / TOKENS_PER_S + (BARRIER * kvUsage) / (1 - kvUsage),
        )
        const engine = indexOfMin(scores)
        dispatched[engine]! += promptTokens
        return { engine }
      },
      firstToken() {},
      ended() {},
    }
  },
}
