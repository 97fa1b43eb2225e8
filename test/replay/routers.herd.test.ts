import { describe, expect, it } from 'vitest'
import { profileNamed } from '../../packages/simulator/src/profiles.ts'
import { chance } from '../../packages/replay/src/replay/chance.ts'
import { fleetOf, replay } from '../../packages/replay/src/replay/plan.ts'
import { routerNamed } from '../../packages/replay/src/replay/routers.ts'
import { figuresOf } from '../../packages/replay/src/replay/statistics.ts'
import { keysOf, type Trace, type TraceRequest } from '../../packages/replay/src/replay/trace.ts'

const BLOCK_TOKENS = 512

/** Every `everyMs` a new prompt, sent `size` times within `withinMs`, each time with a different short tail. */
function herds({
  count,
  size,
  promptTokens,
  withinMs,
  everyMs,
}: {
  readonly count: number
  readonly size: number
  readonly promptTokens: number
  readonly withinMs: number
  readonly everyMs: number
}): Trace {
  const random = chance(3)
  let nextId = 1
  const ids = (tokens: number) => Array.from({ length: Math.floor(tokens / BLOCK_TOKENS) }, () => nextId++)
  const requests = Array.from({ length: count }, (_, herd): TraceRequest[] => {
    const common = ids(promptTokens)
    return Array.from({ length: size }, () => ({
      atMs: herd * everyMs + random() * withinMs,
      promptTokens: promptTokens + 500,
      outputTokens: 100,
      blocks: keysOf(common),
      session: null,
      chain: null,
      thinkMs: 0,
    }))
  })
  return {
    name: 'herds',
    blockTokens: BLOCK_TOKENS,
    requests: requests.flat().sort((one, other) => one.atMs - other.atMs),
  }
}

const fleet = fleetOf(8, { kind: 'vllm', profile: profileNamed('agentic') })

function meanTtftS(trace: Trace, policy: string): number {
  const pace = { speed: 1, closedLoop: false, concurrency: Infinity, holdAt: null, seed: 1, clockMs: null }
  return figuresOf(replay(trace, fleet, routerNamed(policy), pace), { ttftMs: 5000, itlMs: 100 }).ttftMeanMs / 1000
}

describe('many requests with one prompt', () => {
  it.each([
    // Requests during the first prefill wait for it, where round robin makes eight copies at once: a quarter longer
    // over ten of these, not three times as long.
    [
      'over three seconds, of a fleet with room',
      1.3,
      { count: 12, size: 40, promptTokens: 12_288, withinMs: 3000, everyMs: 20_000 },
    ],
    ['at once', 1.1, { count: 12, size: 64, promptTokens: 4096, withinMs: 0, everyMs: 20_000 }],
    ['all the time, of a busy fleet', 1.1, { count: 1, size: 1200, promptTokens: 4096, withinMs: 15_000, everyMs: 1 }],
  ])('%s, wait under `predicted` at most %d times as long as under round robin', (_name, times, sizes) => {
    const trace = herds(sizes)
    const [predicted, inTurn, leastLoaded] = ['predicted', 'round_robin', 'least_loaded'].map((policy) =>
      meanTtftS(trace, policy),
    )
    expect(predicted).toBeLessThan(times * Math.min(inTurn!, leastLoaded!))
  })
})
