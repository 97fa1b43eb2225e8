import { COLUMNS, figureText } from './columns.ts'
import type { ReplayRow } from './replay-row.ts'
import { table } from '../../../../src/cli/commands/text-table.ts'

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

/** Columns that a client of a running gateway cannot measure. */
const SIMULATED: ReadonlySet<string> = new Set([
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
