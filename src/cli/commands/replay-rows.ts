import { deviation, type Figures } from '../../simulator/replay/statistics.ts'
import { markKinds } from '../../simulator/replay/routers.ts'
import { COLUMNS, figureText } from '../report/columns.ts'
import { table } from './command.ts'

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
  const keys = columnsOf(rows)
  const withPublished = Object.keys(published).length > 0
  const head = [...keys.map((key) => COLUMNS[key]?.head ?? key), ...(withPublished ? ['published ms'] : [])]
  const sorted = rows.toSorted((one, other) => one.ttft_mean_ms - other.ttft_mean_ms)
  return table([
    head,
    ...sorted.map((row) => [...cellsOf(row, keys), ...(withPublished ? [published[row.policy] ?? '-'] : [])]),
  ])
}

/** Keys of the printed columns: those of every replay, then those that only these rows have. */
export function columnsOf(rows: readonly ReplayRow[]): string[] {
  const further = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter(
    (key) => COLUMNS[key] === undefined && !HIDDEN.has(key),
  )
  const usual = Object.keys(COLUMNS).filter(
    (key) => !HIDDEN.has(key) && (!OPTIONAL.has(key) || rows.some((row) => row[key] !== undefined)),
  )
  return [...usual, ...further]
}

/** Keys of the columns of a load run: without those that only a simulation can fill. */
export const loadColumns = (): string[] =>
  Object.keys(COLUMNS).filter((key) => !SIMULATED.has(key) && !OPTIONAL.has(key) && key !== 'itl_p99_ms')

/** Formats the rows of one run by engine. */
export function engineTable(rows: readonly ReplayRow[]): string[] {
  const keys = loadColumns()
  return table([
    keys.map((key) => (key === 'policy' ? 'engine' : COLUMNS[key]!.head)),
    ...rows.map((row) => cellsOf(row, keys)),
  ])
}

const cellsOf = (row: ReplayRow, keys: readonly string[]): string[] => keys.map((key) => figureText(key, row[key]))

/** Policies with exact engine state, which cannot be deployed. */
const REFERENCES: ReadonlySet<string> = new Set(markKinds.map(({ name }) => name))
/** Means closer than this share of each other are equal. */
const LEAST_LEAD = 0.005

/** Names the policy with the lowest mean TTFT and its lead, as one sentence. null: nothing to compare. */
export function winnerOf(rows: readonly ReplayRow[]): string | null {
  const [first, second] = rows
    .filter(({ policy }) => !REFERENCES.has(policy))
    .toSorted((one, other) => one.ttft_mean_ms - other.ttft_mean_ms)
  if (first === undefined || second === undefined) return null
  const lead = second.ttft_mean_ms - first.ttft_mean_ms
  const spread = Math.max(first.ttft_mean_sd_ms ?? 0, second.ttft_mean_sd_ms ?? 0)
  const present = rows.map(({ policy }) => policy).filter((policy) => REFERENCES.has(policy))
  const references =
    present.length === 0
      ? ''
      : ` ${present.join(' and ')} ${present.length === 1 ? 'is a reference' : 'are references'} with exact ` +
        'engine state.'
  if (lead <= Math.max(spread, LEAST_LEAD * second.ttft_mean_ms))
    return (
      `No clear winner: mean TTFT of ${first.policy} and ${second.policy} differs by less than ` +
      `${spread > 0 ? 'the deviation between seeds' : `${LEAST_LEAD * 100} %`}.${references}`
    )
  const percent = ((100 * lead) / second.ttft_mean_ms).toFixed(lead < 0.1 * second.ttft_mean_ms ? 1 : 0)
  return `Winner: ${first.policy}, mean TTFT ${percent} % below ${second.policy}.${references}`
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
