import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { main } from '../../bin/commands.ts'
import { Job } from '../../packages/replay/src/replay/job.ts'
import { benchmarkReport, type MeasuredRun } from '../../packages/replay/src/report/benchmark-report.ts'

const folder = mkdtempSync(join(tmpdir(), 'benchmark-report-'))
afterAll(() => rmSync(folder, { recursive: true }))

interface Times {
  readonly sentAt: number
  readonly firstTokenAt: number
  readonly endedAt: number
}

function job(index: number, outputTokens: number, times: Times): Job {
  const request = {
    atMs: 0,
    promptTokens: 100,
    outputTokens,
    blocks: new Uint32Array(),
    session: null,
    chain: null,
    thinkMs: 0,
  }
  return Object.assign(new Job(index, request), times)
}

const result = {
  router: 'gateway',
  jobs: [
    job(0, 5, { sentAt: 0, firstTokenAt: 200, endedAt: 1_000 }),
    job(1, 1, { sentAt: 1_000, firstTokenAt: 1_400, endedAt: 1_400 }),
    job(2, 5, { sentAt: 2_000, firstTokenAt: -1, endedAt: -1 }),
  ],
  refused: 1,
  computedTokens: new Float64Array(1),
  decisionsMs: new Float64Array(0),
  spanMs: 4_000,
}

const provenance = {
  command: 'firstlight load --trace t.jsonl',
  version: '1.2.3',
  trace: 't.jsonl',
  sha256: 'abc',
  profile: 'measured at http://gateway',
  date: '2026-11-28T00:00:00Z',
}

const reportOf = (changes: Partial<MeasuredRun> = {}) =>
  JSON.parse(
    JSON.stringify(
      benchmarkReport({
        result,
        provenance,
        tool: 'firstlight load',
        uid: 'u',
        concurrency: Infinity,
        startedAt: 0,
        ...changes,
      }),
    ),
  ) as Record<'run' | 'scenario' | 'results', object>

describe('benchmark report of llm-d', () => {
  it('a benchmark report has seconds and rates in the units of the format, of answered requests', () => {
    const { results } = reportOf()
    expect(results).toMatchObject({
      request_performance: {
        aggregate: {
          requests: { total: 3, failures: 1, input_length: { units: 'count', mean: 100, stddev: 0 } },
          latency: {
            time_to_first_token: { units: 's', min: 0.2, p50: 0.2, p99: 0.4, max: 0.4 },
            time_per_output_token: { units: 's/token', mean: 0.2 },
            request_latency: { units: 's', mean: 0.7 },
          },
          throughput: {
            output_token_rate: { units: 'tokens/s', mean: 1.5 },
            total_token_rate: { units: 'tokens/s', mean: 51.5 },
            request_rate: { units: 'queries/s', mean: 0.5 },
          },
        },
      },
    })
  })

  it('a benchmark report of a measured run has its real time, and the load', () => {
    const { run, scenario } = reportOf({ concurrency: 4 })
    expect(run).toEqual({
      uid: 'u',
      time: { start: '1970-01-01T00:00:00.000Z', end: '1970-01-01T00:00:04.000Z', duration: 'PT4.000S' },
      description: provenance.command,
    })
    expect(scenario).toMatchObject({
      load: {
        metadata: { cfg_id: 'abc' },
        standardized: {
          tool_version: '1.2.3',
          source: 'random',
          multi_turn: { enabled: false },
          rate_qps: 1.5,
          concurrency: 4,
        },
      },
    })
  })

  it('a benchmark report of a replay has no real time and is marked as simulated', () => {
    const { startedAt: _real, ...virtual }: MeasuredRun = {
      result,
      provenance,
      tool: 'firstlight replay',
      uid: 'u',
      concurrency: 1,
      startedAt: 0,
    }
    expect(benchmarkReport(virtual)).toMatchObject({ run: { time: undefined, keywords: ['simulated'] } })
  })

  it('a benchmark report without an answer has no statistics', () => {
    const { results } = reportOf({ result: { ...result, jobs: result.jobs.slice(2) } })
    expect(results).toEqual({
      request_performance: {
        aggregate: {
          requests: { total: 1, failures: 1 },
          latency: {},
          throughput: {
            input_token_rate: { units: 'tokens/s', mean: 0 },
            output_token_rate: { units: 'tokens/s', mean: 0 },
            total_token_rate: { units: 'tokens/s', mean: 0 },
            request_rate: { units: 'queries/s', mean: 0 },
          },
        },
      },
    })
  })
})

async function replay(...argv: string[]): Promise<{ code: number; err: string }> {
  const err: string[] = []
  const stop = new AbortController().signal
  const io = { out: () => undefined, err: (line: string) => err.push(line), env: {}, stop, stopNow: stop }
  const code = await main(['replay', ...argv], io)
  return { code, err: err.join('\n') }
}

describe('firstlight replay --benchmark-report', () => {
  const trace = join(folder, 't.jsonl')
  const rows = Array.from({ length: 12 }, (_, at) => ({
    timestamp: 50 * at,
    input_length: 600,
    output_length: 4,
    hash_ids: [1],
  }))
  writeFileSync(trace, rows.map((row) => JSON.stringify(row)).join('\n'))

  it('firstlight replay writes the benchmark report of one run', async () => {
    const file = join(folder, 'report.json')
    expect(await replay('--trace', trace, '--policies', 'predicted', '--benchmark-report', file)).toMatchObject({
      code: 0,
    })
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({
      version: '0.2',
      scenario: { load: { standardized: { tool: 'firstlight replay', source: 'unknown' } } },
      results: { request_performance: { aggregate: { requests: { total: 12, failures: 0 } } } },
    })
  })

  it('firstlight replay rejects a benchmark report of several runs', async () => {
    const { code, err } = await replay(
      '--trace',
      trace,
      '--seeds',
      '1,2',
      '--policies',
      'predicted',
      '--benchmark-report',
      join(folder, 'no.json'),
    )
    expect(code).toBe(2)
    expect(err).toContain('--benchmark-report describes one run, not 2.')
  })
})
