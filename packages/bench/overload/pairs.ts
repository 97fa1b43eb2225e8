/** TTFT of the requests that admission control admits, relative to that of the same requests without it. */
import { quantile } from '../../replay/src/replay/statistics.ts'
import type { Job } from '../../replay/src/replay/job.ts'
import type { BenchRow } from '../result.ts'

export interface Pair {
  /** Jobs of a run with admission control, in the order of the trace. */
  readonly limited: readonly Job[]
  /** Jobs of the same trace and seed without it. */
  readonly unlimited: readonly Job[]
}

type Runs = readonly (readonly Job[])[]

export const pairsOf = (limited: Runs, unlimited: Runs): Pair[] =>
  limited.map((jobs, seed) => ({ limited: jobs, unlimited: unlimited[seed]! }))

const ttftsOf = (jobs: readonly Job[]): Float64Array =>
  Float64Array.from(jobs, ({ firstTokenAt, sentAt }) => firstTokenAt - sentAt).sort()

const meanOf = (values: Float64Array): number => values.reduce((sum, value) => sum + value, 0) / values.length

/** Means of the ratios over the seeds. */
export function pairedRow(trace: string, load: number, pairs: readonly Pair[]): BenchRow {
  const ratios = pairs.map(({ limited, unlimited }) => {
    const admitted = limited.filter(({ endedAt }) => endedAt >= 0)
    const mine = ttftsOf(admitted)
    const others = ttftsOf(admitted.map(({ index }) => unlimited[index]!))
    return { mean: meanOf(mine) / meanOf(others), p99: quantile(mine, 0.99) / quantile(others, 0.99) }
  })
  const mean = (pick: (one: (typeof ratios)[number]) => number): number =>
    Number((ratios.reduce((sum, one) => sum + pick(one), 0) / ratios.length).toFixed(3))
  return {
    trace,
    load,
    policy: 'the same requests, with and without slo',
    ttft_ratio_mean: mean((one) => one.mean),
    ttft_ratio_p99: mean((one) => one.p99),
  }
}
