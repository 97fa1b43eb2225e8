import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import type { AutoscaleRow } from '../../packages/replay/src/autoscale/autoscale-row.ts'
import {
  type AutoscaledReplay,
  autoscaledReplay,
  type Scaler,
} from '../../packages/replay/src/autoscale/autoscaled-replay.ts'
import { HorizontalAutoscaler } from '../../packages/replay/src/autoscale/horizontal-autoscaler.ts'
import { kvRule } from '../../packages/replay/src/autoscale/kv-rule.ts'
import { offlineOptimum } from '../../packages/replay/src/autoscale/offline-optimum.ts'
import { queueRule } from '../../packages/replay/src/autoscale/queue-rule.ts'
import type { FleetReading } from '../../packages/replay/src/autoscale/scaling-rule.ts'
import { fleetOf } from '../../packages/replay/src/replay/plan.ts'
import type { EngineGauges } from '../../packages/replay/src/replay/replay-engine.ts'
import type { Trace } from '../../packages/replay/src/replay/trace.ts'
import { profileNamed } from '../../packages/simulator/src/profiles.ts'
import { firstlight } from '../cli/run-cli.ts'

const folder = mkdtempSync(join(tmpdir(), 'autoscale-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** A request every two seconds, and three a second between `fromS` and `toS`. Each takes half a second to prefill. */
function rush(fromS: number, toS: number, endS: number): Trace {
  const times: number[] = []
  for (let at = 0; at < endS; at += at >= fromS && at < toS ? 1 / 3 : 2) times.push(at * 1000)
  const requests = times.map((atMs, at) => ({
    atMs,
    promptTokens: 7000,
    outputTokens: 50,
    blocks: Uint32Array.from({ length: 26 }, (_, lane) => at * 26 + lane + 1),
    session: null,
    chain: null,
    thinkMs: 0,
  }))
  return { name: 'rush', blockTokens: 512, requests }
}

const given = (trace: Trace): AutoscaledReplay => ({
  trace,
  fleet: fleetOf(1, { kind: 'vllm', profile: profileNamed('agentic') }),
  pace: { speed: 1, closedLoop: false, concurrency: Infinity, holdAt: null, seed: 1, clockMs: null },
  slo: { ttftMs: 2_000, itlMs: 100 },
  refuses: true,
  minReplicas: 1,
  maxReplicas: 4,
  beginsWith: 1,
  startS: 60,
})

const scaledAt =
  (steps: Readonly<Record<number, number>>): Scaler =>
  (fleet, _, at) => {
    for (const [s, count] of Object.entries(steps)) at(Number(s) * 1000, (now) => fleet.scaleTo(count, now))
  }

test('a replica serves after its start and finishes its requests before it ends', () => {
  const { jobs, changes, engineHours, spanMs } = autoscaledReplay(given(rush(0, 0, 200)), scaledAt({ 10: 2, 100: 1 }))
  const second = jobs.filter(({ engine }) => engine === 1)
  expect(Math.min(...second.map(({ sentAt }) => sentAt))).toBeGreaterThanOrEqual(70_000)
  expect(Math.max(...second.map(({ sentAt }) => sentAt))).toBeLessThan(100_000)
  expect(jobs.every(({ endedAt }) => endedAt > 0)).toBe(true)
  expect(changes.map(({ ready, starting }) => [ready, starting]).slice(0, 4)).toEqual([
    [1, 0],
    [1, 1],
    [2, 0],
    [1, 0],
  ])
  const ended = changes.at(-1)!.atMs
  expect(ended).toBeGreaterThanOrEqual(Math.max(...second.map(({ endedAt }) => endedAt)))
  expect(engineHours).toBeCloseTo((spanMs + ended - 10_000) / 3_600_000, 6)
})

test('a replica that still starts is the first to end, and does not serve', () => {
  const { jobs, engineHours, spanMs } = autoscaledReplay(given(rush(0, 0, 100)), scaledAt({ 10: 2, 20: 1 }))
  expect(new Set(jobs.map(({ engine }) => engine))).toEqual(new Set([0]))
  expect(engineHours).toBeCloseTo((spanMs + 10_000) / 3_600_000, 6)
})

test('the autoscaler rises at once by its limits, tolerates a tenth, and awaits a decline', () => {
  const autoscaler = new HorizontalAutoscaler({ minReplicas: 1, maxReplicas: 20, stabilizationS: 60 })
  expect(autoscaler.decide(30, 2, 0)).toBe(6)
  expect(autoscaler.decide(30, 6, 15_000)).toBe(12)
  expect(autoscaler.decide(12.9, 12, 30_000)).toBe(12)
  expect(autoscaler.decide(3, 12, 45_000)).toBe(12)
  expect(autoscaler.decide(4, 12, 75_001)).toBe(12)
  expect(autoscaler.decide(3, 12, 90_001)).toBe(4)
  expect(autoscaler.decide(0, 4, 300_000)).toBe(1)
  expect(autoscaler.decide(100, 15, 315_000)).toBe(20)
})

function reading(gauges: readonly EngineGauges[], starting = 0): FleetReading {
  const digest: FleetReading['digest'] = () => {
    throw new Error('not read')
  }
  return { gauges, starting, replicas: gauges.length + starting, digest }
}

test('the queue rule divides all waiting requests by its target', () => {
  const gauges = [4, 7].map((waiting) => ({ waiting, running: 9, kvUsage: 0.5 }))
  expect(queueRule().needed(reading(gauges))).toBe(2.2)
  expect(queueRule(2).needed(reading(gauges))).toBe(5.5)
})

test.each([
  ['adds a replica for little spare KV cache', [0.75, 0.72], [0, 0], 0, 3],
  ['adds a replica for little spare queue', [0.1, 0.1], [3, 2], 0, 3],
  ['adds a replica if all are saturated', [0.9], [0], 0, 2],
  ['awaits a replica that starts', [0.75, 0.72], [0, 0], 1, 3],
  ['ignores saturated replicas in the mean', [0.9, 0.3], [0, 0], 0, 2],
  ['removes a replica if the others have spare', [0.3, 0.3, 0.3], [0, 0, 0], 0, 2],
  ['keeps a replica without which the others would have none', [0.5, 0.5, 0.5], [0, 0, 0], 0, 3],
] as const)('the KV rule %s', (_, kv, waiting, starting, needed) => {
  const gauges = kv.map((kvUsage, at) => ({ kvUsage, waiting: waiting[at]!, running: 1 }))
  expect(kvRule.needed(reading(gauges, starting))).toBe(needed)
})

test('the offline optimum keeps the share with fewer engine hours than any constant fleet that keeps it', () => {
  const replay = given(rush(300, 360, 420))
  const constant = [1, 2, 3, 4].map((beginsWith) => autoscaledReplay({ ...replay, beginsWith }, () => undefined))
  const share = constant[2]!.keptShare
  expect(constant[0]!.keptShare).toBeLessThan(share)
  const { plan, result, isReached } = offlineOptimum(replay, share)
  expect(isReached).toBe(true)
  expect(result.keptShare).toBeGreaterThanOrEqual(share)
  const keeping = constant.filter(({ keptShare }) => keptShare >= share)
  expect(result.engineHours).toBeLessThan(0.7 * Math.min(...keeping.map(({ engineHours }) => engineHours)))
  // Ordered before the rush, which is in the second window.
  expect(plan.replicas[1]).toBeGreaterThan(plan.replicas[0]!)
  expect(result.changes.some(({ atMs, starting }) => atMs === 240_000 && starting > 0)).toBe(true)
})

function traceFile({ requests }: Trace): string {
  const file = join(folder, 'rush.jsonl')
  const rows = requests.map(({ atMs, promptTokens, outputTokens }, at) => ({
    timestamp: Math.round(atMs),
    input_length: promptTokens,
    output_length: outputTokens,
    hash_ids: Array.from({ length: 13 }, (_, block) => at * 13 + block),
  }))
  writeFileSync(file, rows.map((row) => JSON.stringify(row)).join('\n'))
  return file
}

const flags = ['replay', '--autoscale', '--engines', '3', '--start-s', '30', '--slo-ttft-ms', '2000']

test('firstlight replay --autoscale compares the rules and writes the replicas over time', async () => {
  const json = join(folder, 'out.json')
  const { code, out } = await firstlight(...flags, '--trace', traceFile(rush(100, 250, 400)), '--json', json)
  expect(code).toBe(0)
  const { runs } = JSON.parse(readFileSync(json, 'utf8')) as { runs: { rows: AutoscaleRow[] }[] }
  const rows = new Map(runs[0]!.rows.map((row) => [row.rule, row]))
  expect([...rows.keys()]).toEqual(['capacity', 'queue', 'queue, all wait', 'kv_use', 'kv_use, all wait', 'optimum'])
  for (const [rule, row] of rows) {
    expect(out).toContain(rule)
    expect(row.engine_hours).toBeCloseTo(row.hours_vs_optimum * rows.get('optimum')!.engine_hours, 6)
    expect(row.slo_kept + row.refused).toBeLessThanOrEqual(1)
    expect(row.replicas_by_minute.length).toBeGreaterThanOrEqual(7)
  }
  expect(rows.get('queue, all wait')!.refused).toBe(0)
  expect(rows.get('optimum')!.slo_kept).toBeGreaterThanOrEqual(rows.get('capacity')!.slo_kept)
  expect(rows.get('capacity')!.replicas_max).toBeGreaterThan(1)
  expect(rows.get('capacity')!.capacity_error!.minutes).toBeGreaterThanOrEqual(5)
  expect(rows.get('queue, all wait')!.capacity_error).toBeNull()
})

test('firstlight replay --autoscale rejects engines that differ', async () => {
  const config = join(folder, 'roles.yaml')
  const engines = ['prefill', 'decode'].map((role) => `{ id: ${role}, url: "http://${role}:8000", role: ${role} }`)
  writeFileSync(config, `open: true\nclusters: [{ id: a, pools: [{ model: m, engines: [${engines.join(', ')}] }] }]\n`)
  const trace = traceFile(rush(0, 0, 5))
  const { code, err } = await firstlight('replay', '--autoscale', '--trace', trace, '--config', config)
  expect(code).toBe(2)
  expect(err).toContain('--autoscale needs engines that are alike')
})
