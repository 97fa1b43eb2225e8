/** Report of a run in version 0.2 of llm-d-benchmark's format, which its later versions read too. */
import type { Job } from '../replay/job.ts'
import type { RunResult } from '../replay/run.ts'
import { quantile } from '../replay/statistics.ts'
import type { Provenance } from './provenance.ts'

/** What was measured, and how. */
export interface MeasuredRun {
  readonly result: RunResult
  readonly provenance: Provenance
  readonly tool: 'firstlight load' | 'firstlight replay'
  /** Unique id of the report. */
  readonly uid: string
  /** Maximum number of requests in flight; Infinity: none. */
  readonly concurrency: number
  /** Real time of the run, ms since the epoch. Absent: its time is virtual. */
  readonly startedAt?: number
}

/** Quantiles of the format, by name. */
const QUANTILES = {
  p0p1: 0.001,
  p1: 0.01,
  p5: 0.05,
  p10: 0.1,
  p25: 0.25,
  p50: 0.5,
  p75: 0.75,
  p90: 0.9,
  p95: 0.95,
  p99: 0.99,
  p99p9: 0.999,
} as const

type Statistics = Readonly<Record<string, number | string>>

/** Statistics of values. Absent: there are no values, and the format has no mean of none. */
function statisticsOf(values: readonly number[], units: string): Statistics | undefined {
  if (values.length === 0) return undefined
  const sorted = Float64Array.from(values).sort()
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length
  const quantiles = Object.entries(QUANTILES).map(([name, share]) => [name, quantile(sorted, share)])
  const ends = { min: sorted[0]!, max: sorted.at(-1)! }
  return { units, mean, stddev: Math.sqrt(variance), ...ends, ...Object.fromEntries(quantiles) }
}

const isoAt = (ms: number): string => new Date(ms).toISOString()

/** The report as a value for JSON. Absent fields are unknown to the run. */
export function benchmarkReport(run: MeasuredRun): object {
  const { provenance, startedAt, uid } = run
  const spanMs = run.result.spanMs
  const time =
    startedAt === undefined
      ? undefined
      : { start: isoAt(startedAt), end: isoAt(startedAt + spanMs), duration: `PT${(spanMs / 1_000).toFixed(3)}S` }
  return {
    version: '0.2',
    run: { uid, time, description: provenance.command, keywords: startedAt === undefined ? ['simulated'] : undefined },
    scenario: { load: loadOf(run) },
    results: { request_performance: { aggregate: aggregateOf(run.result) } },
  }
}

function loadOf({ result: { jobs, spanMs }, provenance, tool, concurrency }: MeasuredRun): object {
  const lengths = (of: (job: Job) => number) => {
    const values = jobs.map(of)
    const value = values.reduce((sum, one) => sum + one, 0) / Math.max(1, values.length)
    return { distribution: 'other', value, ...(values.length === 0 ? {} : { min: minOf(values), max: maxOf(values) }) }
  }
  const turns = new Set(jobs.flatMap(({ request }) => request.chain ?? []))
  return {
    metadata: { cfg_id: provenance.sha256 ?? undefined, description: `${provenance.trace}; ${provenance.profile}` },
    standardized: {
      tool,
      tool_version: provenance.version,
      // `load` draws the tokens of a trace's lengths at random; a replay has no tokens.
      source: tool === 'firstlight load' ? 'random' : 'unknown',
      input_seq_len: lengths(({ promptTokens }) => promptTokens),
      output_seq_len: lengths(({ outputTokens }) => outputTokens),
      multi_turn: { enabled: turns.size > 0 },
      rate_qps: spanMs > 0 && jobs.length > 0 ? (1_000 * jobs.length) / sendingMs(jobs, spanMs) : undefined,
      concurrency: Number.isFinite(concurrency) ? concurrency : undefined,
    },
    native: { args: { command: provenance.command } },
  }
}

/** Time from the first to the last request, ms; one request takes the whole run. */
function sendingMs(jobs: readonly Job[], spanMs: number): number {
  const sent = jobs.map(({ sentAt }) => sentAt)
  return maxOf(sent) - minOf(sent) || spanMs
}

const minOf = (values: readonly number[]) => values.reduce((min, value) => Math.min(min, value), Infinity)

const maxOf = (values: readonly number[]) => values.reduce((max, value) => Math.max(max, value), -Infinity)

function aggregateOf({ jobs, refused, spanMs }: RunResult): object {
  const answered = jobs.filter(({ endedAt }) => endedAt >= 0)
  const seconds = (of: (job: Job) => number, units = 's', among = answered) =>
    statisticsOf(
      among.map((job) => of(job) / 1_000),
      units,
    )
  const tokens = (of: (job: Job) => number) => statisticsOf(answered.map(of), 'count')
  const rate = (count: number, units: string) => (spanMs > 0 ? { units, mean: (1_000 * count) / spanMs } : undefined)
  const total = (of: (job: Job) => number) => answered.reduce((sum, job) => sum + of(job), 0)
  const [input, output] = [total(({ promptTokens }) => promptTokens), total(({ outputTokens }) => outputTokens)]
  const streams = answered.filter(({ outputTokens }) => outputTokens > 1)
  return {
    requests: {
      total: jobs.length,
      failures: refused,
      input_length: tokens(({ promptTokens }) => promptTokens),
      output_length: tokens(({ outputTokens }) => outputTokens),
    },
    latency: {
      time_to_first_token: seconds((job) => job.firstTokenAt - job.sentAt),
      time_per_output_token: seconds(
        (job) => (job.endedAt - job.firstTokenAt) / (job.outputTokens - 1),
        's/token',
        streams,
      ),
      normalized_time_per_output_token: seconds((job) => (job.endedAt - job.sentAt) / job.outputTokens, 's/token'),
      request_latency: seconds((job) => job.endedAt - job.sentAt),
    },
    throughput: {
      input_token_rate: rate(input, 'tokens/s'),
      output_token_rate: rate(output, 'tokens/s'),
      total_token_rate: rate(input + output, 'tokens/s'),
      request_rate: rate(answered.length, 'queries/s'),
    },
  }
}
