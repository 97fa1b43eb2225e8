import { expect, it } from 'vitest'
import type { RequestRecord } from '../../src/core/reports/request-record.ts'
import { TtftState } from '../../src/core/reports/ttft-state.ts'
import { createGateway } from '../../src/gateway.ts'
import type { Ttft } from '../../src/ports/ttft.ts'
import { Exemplars } from '../../src/telemetry/exemplars.ts'
import type { WorkerGroup } from '../../src/api/worker-group.ts'
import { record } from '../contracts/ttft.ts'
import { configOf, openRecordingPorts } from '../kit/recording-ports.ts'

const DAY_MS = 86_400_000

/** A gateway with a clock that the test sets, and rollups of several shards. */
function openCounted(shards = 2, workerGroup?: WorkerGroup) {
  const states = Array.from({ length: shards }, () => new TtftState({ store: null }))
  const { ports, scope } = openRecordingPorts()
  let now = 1_000 * DAY_MS
  let seq = 0
  let deaf = -1
  const ttft: Ttft = {
    batchMs: 0,
    report: async () => [],
    find: async () => null,
    flush: async () => undefined,
    rollups: async () => states.flatMap((state) => state.rollups()),
    async forget(names, before) {
      for (const [at, state] of states.entries()) if (at !== deaf) state.forget(names, before)
      if (deaf >= 0) throw new Error('a shard is out of reach')
    },
  }
  const gateway = createGateway(
    configOf(),
    { ...ports, now: () => now, ttft },
    workerGroup === undefined ? {} : { workerGroup },
  )
  return {
    pass: (ms: number) => void (now += ms),
    setDeaf: (shard: number) => void (deaf = shard),
    end(shard: number, engines: readonly string[]) {
      const records = engines.map((engine): RequestRecord =>
        record({
          engine,
          receivedAt: now,
          durationMs: 0,
          stages: { edge: 1, admit: 1, ttft: 3 },
          predictedTtftMs: null,
          usage: null,
        }),
      )
      states[shard]!.flush({ source: 'g', epoch: 1, seq: ++seq, records }, now)
    },
    async text(accept = ''): Promise<string> {
      const headers = { host: '127.0.0.1', accept }
      return (await gateway.fetch(new Request('http://127.0.0.1/metrics', { headers }), scope)).text()
    },
    /** Requests by engine, as a scrape returns them. */
    async scrape(): Promise<Record<string, number>> {
      const text = await this.text()
      return Object.fromEntries(
        [...text.matchAll(/^firstlight_requests_total\{.*engine="([^"]*)".*\} (\d+)$/gm)].map(([, engine, value]) => [
          engine!,
          Number(value),
        ]),
      )
    },
  }
}

const pods = Array.from({ length: 6_000 }, (_, at) => `pod-${at}`)

it('the metrics page gives engines of today names of their own again once those of long ago are silent', async () => {
  const world = openCounted(1)
  world.end(0, pods)
  expect((await world.scrape())['other']).toBe(1_000)
  world.pass(2 * DAY_MS + 1)
  world.end(0, ['today'])
  expect(await world.scrape()).toEqual({ other: 1_001 })
  world.end(0, ['today', 'today'])
  expect(await world.scrape()).toEqual({ other: 1_001, today: 2 })
})

it('the metrics page shows an idle engine permanently if there is room', async () => {
  const world = openCounted()
  world.end(0, ['a'])
  world.pass(400 * DAY_MS)
  expect(await world.scrape()).toEqual({ a: 1 })
})

it('the metrics page never shrinks a name, although shards see it at different times', async () => {
  const world = openCounted()
  const alive = pods.slice(3_000)
  const shown = async () =>
    Object.fromEntries(Object.entries(await world.scrape()).filter(([engine]) => !alive.includes(engine)))
  for (const shard of [0, 1]) world.end(shard, ['pod-1', 'pod-2'])
  world.pass(DAY_MS + 1)
  world.end(1, ['pod-1'])
  // For one shard it has been silent for two days, for the other for one.
  world.pass(DAY_MS)
  world.end(0, alive)
  expect(await shown()).toEqual({ 'pod-1': 3 })
  world.pass(DAY_MS + 1)
  world.end(0, alive)
  world.setDeaf(0)
  expect(await shown()).toEqual({})
  world.setDeaf(-1)
  expect(await shown()).toEqual({})
  world.end(0, ['pod-1', 'pod-2'])
  expect(await shown()).toEqual({ 'pod-1': 1, 'pod-2': 1 })
})

it('the metrics page has the exemplars of all threads, and asks for them only if the scraper wants OpenMetrics', async () => {
  const exemplars = new Exemplars()
  const queries: string[] = []
  const workerGroup: WorkerGroup = {
    startedAt: 0,
    prober: null,
    hub: null,
    ask: async ({ about }) => {
      queries.push(about)
      return about === 'exemplars' ? [exemplars.list()] : []
    },
  }
  const world = openCounted(1, workerGroup)
  world.end(0, ['a'])
  const trace = { traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8), parentId: null, engineSpanId: 'e', sampled: true }
  exemplars.add(record({ engine: 'a', stages: { ttft: 3 } }), trace)
  expect(await world.text()).not.toContain('trace_id')
  expect(queries).not.toContain('exemplars')
  const text = await world.text('application/openmetrics-text')
  expect(text).toMatch(/^gen_ai_server_time_to_first_token_seconds_bucket\{.*le="0.005"\} 1 # \{trace_id="(ab){16}"/m)
})
