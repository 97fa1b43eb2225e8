import type { Column } from './engine-selection.ts'
import { type EngineLine, isEdge, roleOf } from './engine-state.ts'
import { type DurationUnit, durationUnit } from './format.ts'

/** Columns that would say the same in every row are left out. */
export interface ShownColumns {
  readonly cluster: boolean
  readonly role: boolean
  /** What this gateway knows of its own engines only: regions have none of it. */
  readonly load: boolean
  /** Of the prefill queues. */
  readonly queueUnit: DurationUnit
  /** Of the times to the first token. */
  readonly ttftUnit: DurationUnit
}

/** Length of the prefill queue, ms; undefined: unknown. */
export const queueMs = ({ engine: { queued_prefill_s: s } }: Pick<EngineLine, 'engine'>): number | undefined =>
  s === undefined ? undefined : 1000 * s

export const shownIn = (lines: readonly EngineLine[]): ShownColumns => ({
  cluster: new Set(lines.map(({ pool }) => pool)).size > 1,
  role: new Set(lines.map(roleOf)).size > 1,
  load: !isEdge(lines.map(({ pool }) => pool)),
  queueUnit: durationUnit(lines.map(queueMs)),
  ttftUnit: durationUnit(lines.map(({ engine }) => engine.ttft_ms)),
})

const LOAD: readonly Column[] = ['blocks', 'queue', 'waiting', 'kv', 'error']

export const isShown = (shown: ShownColumns, column: Column): boolean =>
  (column !== 'cluster' || shown.cluster) && (column !== 'role' || shown.role) && (shown.load || !LOAD.includes(column))
