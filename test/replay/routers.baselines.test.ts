/** Rules of other routers, with examples computed by hand from their sources. */
import { expect, test } from 'vitest'
import { leastWork } from '../../packages/replay/src/replay/baselines/production-stack.ts'
import { scoresOf } from '../../packages/replay/src/replay/baselines/llm-d.ts'
import type { EngineGauges, ReplayEngine } from '../../packages/replay/src/replay/replay-engine.ts'
import type { ReplayRouter } from '../../packages/replay/src/replay/router.ts'
import { routerNamed } from '../../packages/replay/src/replay/routers.ts'
import { keysOf } from '../../packages/replay/src/replay/trace.ts'
import { Job } from '../../packages/replay/src/replay/job.ts'

const BLOCK = 512
const IDLE: EngineGauges = { running: 0, waiting: 0, kvUsage: 0 }

interface Fake {
  readonly gauges?: EngineGauges
  readonly cached?: number
  readonly ttftMs?: number
}

function engine({ gauges = IDLE, cached = 0, ttftMs = 0 }: Fake): ReplayEngine {
  return {
    submit() {},
    nextEventAt: () => Infinity,
    advance() {},
    gauges: () => gauges,
    cacheBlocks: 1000,
    computedTokens: 0,
    exactCachedTokens: () => cached,
    exactTtftMs: () => ttftMs,
    exactColdTtftMs: () => ttftMs,
  }
}

function router(name: string, engines: readonly Fake[]): ReplayRouter {
  return routerNamed(name).create({ engines: engines.map(engine), blockTokens: BLOCK, random: () => 0, rttMs: 0 })
}

let index = 0
function job(ids: readonly number[], session: string | null = null): Job {
  index += 1
  return new Job(index, {
    atMs: 0,
    promptTokens: ids.length * BLOCK,
    outputTokens: 8,
    blocks: keysOf(ids),
    session,
    chain: null,
    thinkMs: 0,
  })
}

function send(to: ReplayRouter, one: Job, now = 0): number {
  one.engine = to.route(one, now)!.engine
  return one.engine
}

const three: Fake[] = [{}, {}, {}]

test('hash_prefix depends on the first two blocks only', () => {
  const hash = router('hash_prefix', three)
  const at = send(hash, job([1, 2, 3]))
  for (let tail = 10; tail < 40; tail += 1) expect(send(hash, job([1, 2, tail, tail + 1]))).toBe(at)
  const engines = new Set(Array.from({ length: 40 }, (_, other) => send(hash, job([1, 100 + other]))))
  expect(engines.size).toBe(3)
})

test('cache_aware follows a match of more than 0.3, else the engine with the fewest requests in flight', () => {
  const aware = router('cache_aware', three)
  expect(send(aware, job([1, 2, 3, 4]))).toBe(0)
  // 2 of 6 blocks match: 0.33.
  expect(send(aware, job([1, 2, 7, 8, 9, 10]))).toBe(0)
  // 1 of 4: 0.25, and engine 0 has two in flight.
  expect(send(aware, job([1, 20, 21, 22]))).toBe(1)
})

test('cache_aware uses the engine with the fewest requests if loads differ by 64 and by half', () => {
  const aware = router('cache_aware', three)
  const jobs = Array.from({ length: 65 }, () => job([1, 2]))
  for (const one of jobs) expect(send(aware, one)).toBe(0)
  // 65 - 0 > 64 and 65 > 1.5 x 0.
  expect(send(aware, job([1, 2]))).toBe(1)
  // Completions restore the balance: 64 - 0 is within the limit. The tree has the prompt on 0 and 1, and the first
  // wins.
  aware.ended(jobs[0]!, 1)
  expect(send(aware, job([1, 2]))).toBe(0)
})

test('llm_d adds twice the match, twice the queue score and once the memory score', () => {
  const gauges = [
    { running: 1, waiting: 4, kvUsage: 0.5 },
    { running: 1, waiting: 0, kvUsage: 0.9 },
    { running: 1, waiting: 1, kvUsage: 0 },
  ]
  const scores = scoresOf(gauges, [1, 0, 0.5])
  expect(scores[0]).toBeCloseTo(2 + 0.5)
  expect(scores[1]).toBeCloseTo(2 + 0.1)
  expect(scores[2]).toBeCloseTo(1 + 2 * 0.75 + 1)
})

test('llm_d does not distinguish prompts beyond 4096 tokens', () => {
  const picker = router('llm_d', [{ gauges: { ...IDLE, kvUsage: 0.2 } }, {}])
  const eight = [1, 2, 3, 4, 5, 6, 7, 8]
  expect(send(picker, job([...eight, 9]))).toBe(1)
  // The whole visible match of 8 blocks of 512 is on engine 1, although the tail differs.
  expect(send(picker, job([...eight, 50, 51, 52]))).toBe(1)
})

test('kvaware uses the longest match if at most 2000 tokens are uncached, whatever the load', () => {
  const aware = router('production_stack_kvaware', [{ cached: 512 }, { cached: 4 * BLOCK }, {}])
  for (let time = 0; time < 50; time += 1) expect(send(aware, job([1, 2, 3, 4, 5, 6, 7]), time)).toBe(1)
  // Of 8 blocks, 2048 uncached tokens are too many, so the fewest arrivals decide: 0 has none.
  expect(send(aware, job([1, 2, 3, 4, 5, 6, 7, 8]), 60)).toBe(0)
})

test('kvaware falls back to the session, else to the fewest arrivals of a minute', () => {
  const aware = router('production_stack_kvaware', three)
  const at = send(aware, job([1, 2, 3, 4, 5], 'anna'))
  for (let turn = 0; turn < 5; turn += 1) expect(send(aware, job([turn], 'anna'))).toBe(at)
  const counts = new Set([
    send(aware, job([6, 7, 8, 9, 10]), 70_000),
    send(aware, job([6, 7, 8, 9, 10]), 70_001),
    send(aware, job([6, 7, 8, 9, 10]), 70_002),
  ])
  expect(counts.size).toBe(3)
})

test('the trapezoid of #670 uses the last of equal engines, matched ones first', () => {
  // workload(1000, 256) = 467604, workload(1000, 0) = 500500.
  expect(leastWork(1000, [0, 256, 0], [0, 0, 0])).toBe(1)
  expect(leastWork(1000, [0, 256, 0], [0, 40_000, 0])).toBe(2)
  expect(leastWork(1000, [0, 0, 0], [0, 0, 0])).toBe(2)
  expect(leastWork(1000, [256, 256, 0], [0, 0, 0])).toBe(1)
  // A tie between a matched and an unmatched engine goes to the unmatched one, which is evaluated last.
  expect(leastWork(1000, [0, 256], [0, 500_500 - 467_604])).toBe(0)
})

test('#670 charges a prompt in full until its first token', () => {
  const stack = router('production_stack_ttft', [{}, {}])
  const [one, other] = [job([1, 2, 3, 4]), job([5])]
  expect(send(stack, one)).toBe(1)
  expect(send(stack, other)).toBe(0)
  expect(send(stack, job([6]))).toBe(0)
  stack.firstToken(one, 5)
  expect(send(stack, job([7]))).toBe(1)
})

test('dynamo_today weights queued and new prefill blocks and the resulting blocks', () => {
  const today = router('dynamo_today', [{}, {}])
  const first = send(today, job([1, 2, 3, 4, 5, 6]))
  // Cached engine: prefill 6 queued + 4 own - 1 credit = 9, blocks 6 + 3 = 9: 18. Idle engine: 4 + 4 = 8.
  expect(send(today, job([1, 30, 31, 32]))).toBe(1 - first)
  // Cached engine: 6 + 6 - 6 = 6 and 6 blocks: 12. Other: 4 + 6 = 10 and 4 + 6 = 10: 20.
  expect(send(today, job([1, 2, 3, 4, 5, 6]))).toBe(first)
})

test('dynamo_1731 draws, and sometimes chooses the worst engine', () => {
  let draw = 0
  const drawn = routerNamed('dynamo_1731').create({
    engines: [{}, {}].map(engine),
    blockTokens: BLOCK,
    random: () => (draw = (draw + 0.618) % 1),
    rttMs: 0,
  })
  const chosen = Array.from({ length: 60 }, () => send(drawn, job([1, 2, 3, 4])))
  expect(new Set(chosen)).toEqual(new Set([0, 1]))
})

test('exact uses the lowest true time, then the engine with the least computed work', () => {
  expect(send(router('exact', [{ ttftMs: 30 }, { ttftMs: 20 }, { ttftMs: 25 }]), job([1]))).toBe(1)
  const engines = [{ ttftMs: 10 }, { ttftMs: 10 }].map((fake, at) =>
    Object.assign(engine(fake), { computedTokens: at === 0 ? 5 : 2 }),
  )
  const exact = routerNamed('exact').create({ engines, blockTokens: BLOCK, random: () => 0, rttMs: 0 })
  expect(send(exact, job([1]))).toBe(1)
})

test('unknown policies and options are rejected with the known ones', () => {
  expect(() => routerNamed('fastest')).toThrow(/unknown policy "fastest"; policies: .*predicted/)
  expect(() => routerNamed('exact:weight=1')).toThrow(/"exact" has no options/)
  expect(() => routerNamed('predicted:work_wait=1')).toThrow(
    /predicted has no option "work_wait"; it has decode_weight, /,
  )
  expect(() => routerNamed('predicted:work_weight=11')).toThrow(
    'work_weight of predicted must be a number from 0 to 10, got "11"',
  )
  expect(() => routerNamed('least_loaded:x=1')).toThrow('least_loaded has no option "x"; it has none')
  expect(routerNamed('predicted:work_weight=2').name).toBe('predicted:work_weight=2')
})
