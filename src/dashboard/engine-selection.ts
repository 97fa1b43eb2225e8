/** Filter and order of the engines. */
import { type EngineLine, type EngineState, roleOf } from './engine-state.ts'

const columns = {
  engine: ({ engine }: EngineLine) => engine.id,
  cluster: ({ pool }: EngineLine) => `${pool.cluster} ${pool.model}`,
  role: (line: EngineLine) => roleOf(line),
  state: ({ text }: EngineLine) => text,
  running: ({ engine }: EngineLine) => engine.requests,
  blocks: ({ engine }: EngineLine) => engine.active_blocks,
  queue: ({ engine }: EngineLine) => engine.queued_prefill_s,
  waiting: ({ engine }: EngineLine) => engine.stats?.waiting,
  kv: ({ engine }: EngineLine) => engine.stats?.kv_usage,
  hits: ({ engine }: EngineLine) => engine.hit_rate,
  ttft: ({ engine }: EngineLine) => engine.ttft_ms,
  error: ({ engine }: EngineLine) => engine.learned?.ttft_error,
  requests: ({ engine }: EngineLine) => engine.requests_total,
  failures: ({ engine }: EngineLine) => engine.failures_total,
} as const satisfies Record<string, (line: EngineLine) => string | number | null | undefined>

export type Column = keyof typeof columns

export interface Selection {
  readonly text: string
  readonly state: EngineState | 'all' | 'trouble'
  readonly column: Column
  readonly descending: boolean
}

/** Filters and sorts the lines. Unknown values come last in both directions. */
export function selectLines<Of extends EngineLine>(
  lines: readonly Of[],
  { text, state, column, descending }: Selection,
): Of[] {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
  const fits = (line: EngineLine) => {
    const own = `${line.engine.id} ${line.pool.cluster} ${line.pool.model} ${roleOf(line)} ${line.text}`.toLowerCase()
    return (
      words.every((word) => own.includes(word)) &&
      (state === 'all' || (state === 'trouble' ? line.state !== 'up' : line.state === state))
    )
  }
  const value = columns[column]
  return lines.filter(fits).toSorted((a, b) => compare(value(a), value(b), descending))
}

type Value = string | number | null | undefined

function compare(a: Value, b: Value, descending: boolean): number {
  const isMissing = Number(a === null || a === undefined) - Number(b === null || b === undefined)
  if (isMissing !== 0 || a === null || a === undefined || b === null || b === undefined) return isMissing
  const order =
    typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true })
  return descending ? -order : order
}
