import { expect, test } from 'vitest'
import { profileNamed } from '../../packages/simulator/src/profiles.ts'
import { GatewayRouter } from '../../packages/replay/src/replay/gateway-router.ts'
import { speedOf } from '../../packages/replay/src/replay/sustained-speed.ts'
import { fleetOf, replay } from '../../packages/replay/src/replay/plan.ts'
import { presetNamed, publishedMean } from '../../packages/replay/src/replay/presets.ts'
import { multiRound, sharedPrefixes } from '../../packages/replay/src/replay/workloads.ts'
import { baselineKinds, routerKinds, routerNamed, shippedKinds } from '../../packages/replay/src/replay/routers.ts'
import { oracleKinds } from '../../packages/replay/src/replay/oracles.ts'
import { figuresOf, quantile } from '../../packages/replay/src/replay/statistics.ts'
import type { RouterContext } from '../../packages/replay/src/replay/router.ts'
import { keysOf, type Trace } from '../../packages/replay/src/replay/trace.ts'

const pace = { speed: 1, closedLoop: false, concurrency: Infinity, holdAt: null, seed: 1, clockMs: null }
const slo = { ttftMs: 1000, itlMs: 100 }
const serial = {
  kind: 'serial',
  options: { blockTokens: 64, cacheBlocks: 400, prefillBlockMs: 10, decodeTokenMs: 5 },
} as const
const vllm = { kind: 'vllm', profile: profileNamed('agentic') } as const

const busy = sharedPrefixes({
  name: 'busy',
  requests: 150,
  promptTokens: 1280,
  outputTokens: 12,
  prefixes: 5,
  prefixShare: 0.6,
  varyPrompt: 0.5,
  varyOutput: 0.5,
  blockTokens: 64,
  seed: 3,
})
const paced: Trace = { ...busy, requests: busy.requests.map((request, at) => ({ ...request, atMs: at * 40 })) }

test.each(routerKinds.map((kind) => [kind.name, kind] as const))(
  '%s answers every request, with equal results in two runs',
  (_, kind) => {
    for (const engine of [serial, vllm]) {
      const once = replay(paced, fleetOf(3, engine), kind, pace)
      expect(once.refused).toBe(0)
      for (const job of once.jobs) {
        expect(job.endedAt).toBeGreaterThanOrEqual(job.firstTokenAt)
        expect(job.firstTokenAt).toBeGreaterThan(job.sentAt)
      }
      const again = replay(paced, fleetOf(3, engine), kind, pace)
      expect(again.jobs.map((job) => [job.engine, job.firstTokenAt, job.endedAt])).toEqual(
        once.jobs.map((job) => [job.engine, job.firstTokenAt, job.endedAt]),
      )
    }
  },
)

test('every policy can be replayed next to the baselines, under unique names', () => {
  const names = routerKinds.map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  expect(shippedKinds.map(({ name }) => name)).toContain('predicted')
  expect(baselineKinds.map(({ name }) => name)).toEqual([
    'hash_prefix',
    'cache_aware',
    'llm_d',
    'dynamo_today',
    'dynamo_1731',
    'production_stack_kvaware',
    'production_stack_ttft',
  ])
  expect(oracleKinds.map(({ name }) => name)).toContain('exact')
})

test('no booking outlives its request', () => {
  let router: GatewayRouter | null = null
  const kind = {
    ...routerNamed('predicted'),
    create: (context: RouterContext) =>
      (router = new GatewayRouter({ name: 'predicted', policy: { name: 'predicted', options: {} } }, context)),
  }
  replay(paced, fleetOf(3, vllm), kind, pace)
  expect(router!.state.bookings).toBe(0)
})

test('a closed loop sends no turn before the previous response and think time', () => {
  const trace = multiRound({
    name: 'm',
    users: 5,
    rounds: 4,
    systemTokens: 128,
    historyTokens: 640,
    questionTokens: 64,
    answerTokens: 20,
    joinMs: 10,
    thinkMs: 300,
    blockTokens: 64,
    named: true,
  })
  const { jobs } = replay(trace, fleetOf(2, vllm), routerNamed('predicted'), { ...pace, closedLoop: true, speed: 2 })
  for (const user of [0, 1, 2, 3, 4]) {
    const turns = jobs.filter(({ request }) => request.chain === `user-${user}`)
    for (let at = 1; at < turns.length; at += 1) expect(turns[at]!.sentAt).toBeCloseTo(turns[at - 1]!.endedAt + 150)
  }
})

test('a session continues after a rejected request, and queued ones are served', () => {
  const trace = multiRound({
    name: 'm',
    users: 6,
    rounds: 4,
    systemTokens: 128,
    historyTokens: 640,
    questionTokens: 64,
    answerTokens: 20,
    joinMs: 10,
    thinkMs: 300,
    blockTokens: 64,
    named: true,
  })
  const full = {
    ...fleetOf(2, vllm),
    engines: fleetOf(2, vllm).engines.map((one) => ({ ...one, spec: { maxInFlight: 1 } })),
  }
  for (const limits of [{}, { concurrency: 4 }, { holdAt: 1 }]) {
    const { jobs, refused } = replay(trace, full, routerNamed('predicted'), {
      ...pace,
      closedLoop: true,
      speed: 20,
      ...limits,
    })
    expect(refused).toBeGreaterThan(0)
    expect(jobs.filter(({ endedAt }) => endedAt >= 0).length + refused).toBe(24)
  }
})

test('a concurrency limit is never exceeded', () => {
  const { jobs } = replay(busy, fleetOf(2, vllm), routerNamed('round_robin'), { ...pace, concurrency: 7 })
  for (const { sentAt } of jobs)
    expect(jobs.filter((job) => job.sentAt <= sentAt && job.endedAt > sentAt).length).toBeLessThanOrEqual(7)
})

test('late binding limits prompts without a first token per engine', () => {
  const { jobs } = replay(busy, fleetOf(2, serial), routerNamed('predicted'), { ...pace, holdAt: 2 })
  expect(jobs.every(({ endedAt }) => endedAt > 0)).toBe(true)
  const inTurn = [...jobs].sort((one, other) => one.firstTokenAt - other.firstTokenAt)
  // Late binding keeps the order: no early request waits for a late one.
  const worst = Math.max(...inTurn.map((job, at) => Math.abs(job.index - at)))
  expect(worst).toBeLessThan(8)
})

test('a network round trip adds to every first token', () => {
  const one: Trace = { ...paced, requests: paced.requests.slice(0, 1) }
  const near = replay(one, fleetOf(2, vllm), routerNamed('predicted'), pace).jobs[0]!
  const far = replay(one, fleetOf(2, vllm, 80), routerNamed('predicted'), pace).jobs[0]!
  expect(far.firstTokenAt - far.sentAt).toBeCloseTo(near.firstTokenAt - near.sentAt + 80)
})

test('a split fleet prefills on one engine and decodes on another', () => {
  const profile = profileNamed('agentic')
  const engines = (['prefill', 'decode'] as const).map((role) => ({
    model: { kind: 'vllm', profile } as const,
    spec: { role },
  }))
  const fleet = { engines, rttMs: 0, split: { mode: 'always', thresholdTokens: 0, fallback: 'fail' } as const }
  const result = replay(paced, fleet, routerNamed('predicted'), pace)
  expect(result.refused).toBe(0)
  expect(result.jobs.every(({ engine, endedAt }) => engine === 0 && endedAt > 0)).toBe(true)
  expect(result.computedTokens[0]).toBeGreaterThan(result.computedTokens[1]! * 10)
})

test('figures equal a manual calculation', () => {
  const blocks = keysOf([1, 2])
  const request = { atMs: 0, promptTokens: 128, outputTokens: 3, blocks, session: null, chain: null, thinkMs: 0 }
  const trace: Trace = { name: 't', blockTokens: 64, requests: [request, request, { ...request, atMs: 1000 }] }
  const figures = figuresOf(replay(trace, fleetOf(1, serial), routerNamed('round_robin'), pace), {
    ttftMs: 5,
    itlMs: 100,
  })
  // 2 blocks x 10 ms. The second waits for the first and is fully cached. The third is fully cached on an idle engine.
  expect(figures).toMatchObject({
    ttftMeanMs: 40 / 3,
    ttftP50Ms: 20,
    itlMeanMs: 5,
    goodput: 1 / 3,
    imbalanceRequests: 1,
    preemptions: 0,
  })
  expect(figures.hit).toBeCloseTo(2 / 3)
  expect(quantile(Float64Array.of(1, 2, 3, 4), 0.5)).toBe(2)
  expect(quantile(new Float64Array(0), 0.5)).toBe(0)
})

test('speed is proportional to load, and at full load users wait two to four times as long as alone', () => {
  const half = speedOf(0.5, paced, fleetOf(2, serial), pace)
  const full = speedOf(1, paced, fleetOf(2, serial), pace)
  expect(full).toBeCloseTo(2 * half)
  const mean = (speed: number) =>
    figuresOf(replay(paced, fleetOf(2, serial), routerNamed('exact'), { ...pace, speed }), slo).ttftMeanMs
  const ratio = mean(full) / mean(1 / 64)
  expect(ratio).toBeGreaterThan(2)
  expect(ratio).toBeLessThanOrEqual(4)
})

test('a trace that cannot load the fleet has no load, even if all of its requests come at once', () => {
  const few: Trace = { ...paced, requests: paced.requests.slice(0, 4) }
  expect(() => speedOf(0.7, few, fleetOf(8, serial), pace)).toThrow('4 requests are too few to load this fleet')
})

test('the published mean, 19 values divided by 100 slots, is shown beside the true mean', () => {
  const [part] = presetNamed('experiment-2').parts
  const result = replay(part!.trace, part!.fleet, routerNamed('round_robin'), {
    ...pace,
    closedLoop: part!.closedLoop,
    concurrency: part!.concurrency,
  })
  const printed = publishedMean(result)
  expect(printed['slots_written']).toBe(19)
  const trueMean = figuresOf(result, slo).ttftMeanMs
  expect(printed['as_published_ms']! / trueMean).toBeCloseTo(0.19, 1)
})
