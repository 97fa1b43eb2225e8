/** Admission control and its queue with simulated engines, in virtual time. */
import { expect, it } from 'vitest'
import type { SloConfig } from '../../src/core/contract/pool-config.ts'
import { profileNamed } from '../../packages/simulator/src/profiles.ts'
import { type GatewayOptions, GatewayRouter } from '../../packages/replay/src/replay/gateway-router.ts'
import { fleetOf, replay } from '../../packages/replay/src/replay/plan.ts'
import { quantile } from '../../packages/replay/src/replay/statistics.ts'
import type { Job } from '../../packages/replay/src/replay/job.ts'
import { keysOf, type Trace } from '../../packages/replay/src/replay/trace.ts'
import { sharedPrefixes } from '../../packages/replay/src/replay/workloads.ts'

const ENGINES = 4
const SLO: SloConfig = { ttftMs: 5_000, ttftMsPer1kTokens: null, itlMs: 100 }

/** Single seeds differ by more than what the tests compare. */
const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8]

const meanOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length

/** Requests at a steady pace. */
function traceOf(requests: number, everyMs: number, seed = 5): Trace {
  const trace = sharedPrefixes({
    name: 'queue',
    requests,
    promptTokens: 6_000,
    outputTokens: 150,
    prefixes: 20,
    prefixShare: 0.4,
    varyPrompt: 0.8,
    varyOutput: 0.8,
    blockTokens: 512,
    seed,
  })
  return { ...trace, requests: trace.requests.map((request, at) => ({ ...request, atMs: at * everyMs })) }
}

interface PlacedJob {
  readonly job: Job
  readonly at: number
}

function run(trace: Trace, options: Partial<GatewayOptions>, maxInFlight: number | null = null) {
  const placed: PlacedJob[] = []
  let router: GatewayRouter | null = null
  const kind = {
    name: 'queue',
    doc: '',
    source: '',
    create: (context: ConstructorParameters<typeof GatewayRouter>[1]) =>
      (router = new GatewayRouter(
        {
          name: 'queue',
          policy: { name: 'predicted', options: {} },
          ...options,
          chose: ({ job }, at) => void placed.push({ job, at }),
        },
        context,
      )),
  }
  const fleet = fleetOf(ENGINES, { kind: 'vllm', profile: profileNamed('agentic') })
  const engines = fleet.engines.map((engine) => ({ ...engine, spec: { maxInFlight } }))
  const pace = { speed: 1, closedLoop: false, concurrency: Infinity, holdAt: null, seed: 1, clockMs: null }
  const result = replay(trace, { ...fleet, engines }, kind, pace)
  return { ...result, placed, state: router!.state }
}

const ttftMs = (jobs: readonly Job[], share: number): number =>
  quantile(Float64Array.from(jobs, ({ firstTokenAt, sentAt }) => firstTokenAt - sentAt).sort(), share)

const meanTtftMs = (jobs: readonly Job[]): number =>
  jobs.reduce((sum, { firstTokenAt, sentAt }) => sum + firstTokenAt - sentAt, 0) / jobs.length

/** Median error of the predicted TTFT, from the placement on. */
const errorOf = (placed: readonly PlacedJob[]): number =>
  quantile(
    Float64Array.from(placed.slice(200), ({ job, at }) =>
      Math.abs(job.predictedTtftMs! / (job.firstTokenAt - at) - 1),
    ).sort(),
    0.5,
  )

it('predictions after a wait are as good as without one, over 1,000 requests', () => {
  const trace = traceOf(1_400, 200)
  const waited = run(trace, { queue: { maxRequests: 10_000, maxWaitMs: 1e9 } }, 3)
  expect(waited.refused).toBe(0)
  expect(waited.placed.filter(({ job, at }) => at > job.sentAt).length).toBeGreaterThan(1_000)
  expect(errorOf(waited.placed)).toBeLessThan(0.05)
  expect(errorOf(waited.placed)).toBeLessThan(1.5 * errorOf(run(trace, {}).placed))
  expect([waited.state.waiting, waited.state.bookings]).toEqual([0, 0])
})

it('sheddable requests beyond the load do not delay critical ones: their p99 stays within 10 %', () => {
  const all = traceOf(3_000, 150)
  const isCritical = (job: Job): boolean => job.request.atMs % (5 * 150) === 0
  const critical = all.requests.filter(({ atMs }) => atMs % (5 * 150) === 0)
  const classOf = (job: Job) => (isCritical(job) ? 'critical' : 'sheddable')
  const alone = run({ ...all, requests: critical }, { slo: SLO, classOf })
  const both = run(all, { slo: SLO, classOf, tenantOf: classOf })
  const mine = both.jobs.filter(isCritical)
  expect(alone.refused).toBe(0)
  expect(both.refused).toBeGreaterThan(0.5 * all.requests.length)
  expect(mine.filter(({ endedAt }) => endedAt < 0)).toHaveLength(0)
  expect(ttftMs(mine, 0.99)).toBeLessThan(1.1 * ttftMs(alone.jobs, 0.99))
})

// Over 12 seeds, mean TTFT has a ratio of 1.00 (standard deviation 0.007 between seeds), and p99 of 1.04 (0.06): the few
// refusals move later requests. 1.5 % (0.7 %) are refused, which raises goodput from 0.85 to 0.97.
it('below the limit of the fleet, the same requests are as fast with admission control', () => {
  const requests = 1_500
  const found = SEEDS.map((seed) => {
    const trace = traceOf(requests, 190, seed)
    const without = run(trace, {})
    const limited = run(trace, { slo: SLO })
    const admitted = limited.jobs.filter(({ endedAt }) => endedAt >= 0)
    const pairs = admitted.map(({ index }) => without.jobs[index]!)
    return {
      refused: limited.refused,
      mean: meanTtftMs(admitted) / meanTtftMs(pairs),
      p99: ttftMs(admitted, 0.99) / ttftMs(pairs, 0.99),
    }
  })
  const refused = meanOf(found.map((one) => one.refused))
  expect(refused).toBeGreaterThan(0)
  expect(refused).toBeLessThan(0.02 * requests)
  expect(meanOf(found.map(({ mean }) => mean))).toBeLessThan(1.01)
  expect(meanOf(found.map(({ p99 }) => p99))).toBeLessThan(1.1)
})

/** Every 20th prompt takes longer than the objective on an idle engine. */
function withLongPrompts(trace: Trace): Trace {
  const requests = trace.requests.map((request, at) => {
    const ids = Array.from({ length: 40_000 / trace.blockTokens }, (_, block) => 1e6 + 100 * at + block)
    return at % 20 === 0 ? { ...request, promptTokens: 40_000, blocks: keysOf(ids) } : request
  })
  return { ...trace, requests }
}

// Over three seeds, the queue changes goodput by -0.2, -0.2 and +1.1 %; one seed has a standard deviation of 1 to 3 %.
it.each([
  [300, 0.985],
  [200, 0.98],
  [100, 0.98],
])(
  'a queue costs no goodput beside prompts that are late alone, with a request each %i ms: at least %s of it',
  (everyMs, min) => {
    const isGood = ({ endedAt, firstTokenAt, sentAt, outputTokens }: Job): boolean =>
      endedAt >= 0 && firstTokenAt - sentAt <= 5_000 && (endedAt - firstTokenAt) / (outputTokens - 1) <= 100
    const shares = SEEDS.map((seed) => {
      const trace = withLongPrompts(traceOf(1_500, everyMs, seed))
      const without = run(trace, { slo: SLO })
      const queued = run(trace, { slo: SLO, queue: { maxRequests: 256, maxWaitMs: 2_000 } })
      return queued.jobs.filter(isGood).length / without.jobs.filter(isGood).length
    })
    expect(meanOf(shares)).toBeGreaterThan(min)
  },
  // 16 replays, half a minute of CPU.
  300_000,
)
