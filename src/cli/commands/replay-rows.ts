import { deviation, type Figures } from '../../simulator/replay/statistics.ts'
import { table } from './progress-bar.ts'

/** One result row: a policy at one load, over all seeds. Field names contain the unit. */
export interface ReplayRow {
  readonly trace: string
  /** Share of the sustainable load; null: the trace's own pace or the requested speed. */
  readonly load: number | null
  readonly policy: string
  readonly ttft_mean_ms: number
  /** Standard deviation over seeds; absent with a single seed. */
  readonly ttft_mean_sd_ms?: number
  readonly ttft_p50_ms: number
  readonly ttft_p90_ms: number
  readonly ttft_p99_ms: number
  readonly itl_mean_ms: number
  readonly goodput: number
  readonly hit: number
  readonly imbalance_requests: number
  readonly imbalance_work: number
  readonly preemptions: number
  readonly decision_mean_us: number
  readonly [further: string]: string | number | null | undefined
}

/** Averages over seeds, with the spread of the means if there are several. */
export function rowOf(
  policy: string,
  figures: readonly Figures[],
  { trace, load }: { readonly trace: string; readonly load: number | null },
): ReplayRow {
  const mean = (pick: (one: Figures) => number) =>
    round(figures.reduce((sum, one) => sum + pick(one), 0) / figures.length)
  const apart = deviation(figures.map((one) => one.ttftMeanMs))
  return {
    trace,
    load,
    policy,
    seeds: figures.length,
    requests: figures[0]!.requests,
    refused: mean((one) => one.refused),
    ttft_mean_ms: mean((one) => one.ttftMeanMs),
    ...(apart === null ? {} : { ttft_mean_sd_ms: round(apart) }),
    ttft_p50_ms: mean((one) => one.ttftP50Ms),
    ttft_p90_ms: mean((one) => one.ttftP90Ms),
    ttft_p99_ms: mean((one) => one.ttftP99Ms),
    itl_mean_ms: mean((one) => one.itlMeanMs),
    itl_p99_ms: mean((one) => one.itlP99Ms),
    goodput: mean((one) => one.goodput),
    hit: mean((one) => one.hit),
    imbalance_requests: mean((one) => one.imbalanceRequests),
    imbalance_work: mean((one) => one.imbalanceWork),
    preemptions: mean((one) => one.preemptions),
    decision_mean_us: mean((one) => one.decisionMeanUs),
    decision_p99_us: mean((one) => one.decisionP99Us),
    ttft_error_p50: figures[0]!.ttftErrorP50 === null ? null : mean((one) => one.ttftErrorP50 ?? 0),
  }
}

const round = (value: number) => Number(value.toPrecision(6))

/** Formats the table, ordered by mean TTFT. */
export function tableOf(rows: readonly ReplayRow[], published: Readonly<Record<string, string>> = {}): string[] {
  const known = new Set(Object.keys(COLUMNS))
  const further = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter(
    (key) => !known.has(key) && !HIDDEN.has(key),
  )
  const usual = Object.entries(COLUMNS).filter(
    ([key]) => !OPTIONAL.has(key) || rows.some((row) => row[key] !== undefined),
  )
  const columns: readonly (readonly [string, Column])[] = [
    ...usual,
    ...further.map((key) => [key, { head: key, digits: 0 }] as const),
  ]
  const withPublished = Object.keys(published).length > 0
  const head = [...columns.map(([, { head: text }]) => text), ...(withPublished ? ['published_ms'] : [])]
  const sorted = [...rows].sort((one, other) => one.ttft_mean_ms - other.ttft_mean_ms)
  return table([
    head,
    ...sorted.map((row) => [...cellsOf(row, columns), ...(withPublished ? [published[row.policy] ?? '-'] : [])]),
  ])
}

/** Formats the rows of one run by engine, without columns that only a simulation can fill. */
export function engineTable(rows: readonly ReplayRow[]): string[] {
  const columns = Object.entries(COLUMNS).filter(([key]) => !SIMULATED.has(key) && !OPTIONAL.has(key))
  return table([
    columns.map(([key, { head }]) => (key === 'policy' ? 'engine' : head)),
    ...rows.map((row) => cellsOf(row, columns)),
  ])
}

const cellsOf = (row: ReplayRow, columns: readonly (readonly [string, Column])[]): string[] =>
  columns.map(([key, { digits }]) => cell(row[key], digits))

interface Column {
  readonly head: string
  readonly digits: number
}

const COLUMNS: Readonly<Record<string, Column>> = {
  policy: { head: 'policy', digits: 0 },
  ttft_mean_ms: { head: 'ttft_mean_ms', digits: 0 },
  ttft_mean_sd_ms: { head: '±', digits: 0 },
  ttft_p50_ms: { head: 'p50', digits: 0 },
  ttft_p90_ms: { head: 'p90', digits: 0 },
  ttft_p99_ms: { head: 'p99', digits: 0 },
  itl_mean_ms: { head: 'itl_ms', digits: 1 },
  goodput: { head: 'goodput', digits: 3 },
  hit: { head: 'hit', digits: 3 },
  imbalance_requests: { head: 'imb_req', digits: 2 },
  imbalance_work: { head: 'imb_work', digits: 2 },
  preemptions: { head: 'preempt', digits: 0 },
  decision_mean_us: { head: 'decide_us', digits: 0 },
}

/** Columns that a client of a running gateway cannot measure. */
export const SIMULATED: ReadonlySet<string> = new Set([
  'imbalance_requests',
  'imbalance_work',
  'preemptions',
  'decision_mean_us',
  'decision_p99_us',
  'ttft_error_p50',
])

/** Columns that are shown only if they have values. */
const OPTIONAL: ReadonlySet<string> = new Set(['ttft_mean_sd_ms'])

const HIDDEN = new Set([
  'trace',
  'load',
  'seeds',
  'requests',
  'refused',
  'itl_p99_ms',
  'decision_p99_us',
  'ttft_error_p50',
])

function cell(value: string | number | null | undefined, digits: number): string {
  if (value === null || value === undefined) return '-'
  return typeof value === 'number' ? value.toFixed(digits) : value
}
