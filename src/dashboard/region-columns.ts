import { type DurationUnit, durationUnit } from './format.ts'
import type { RegionEngine } from './region-view.ts'
import { queueMs } from './shown-columns.ts'

/** Columns of the engines of a region. Those that would say the same in every row are left out. */
export interface RegionColumns {
  readonly cluster: boolean
  readonly role: boolean
  readonly queueUnit: DurationUnit
  readonly ttftUnit: DurationUnit
}

export const regionColumns = (engines: readonly RegionEngine[]): RegionColumns => ({
  cluster: new Set(engines.map(({ cluster }) => cluster)).size > 1,
  role: new Set(engines.map(({ role }) => role)).size > 1,
  queueUnit: durationUnit(engines.map((engine) => queueMs({ engine }))),
  ttftUnit: durationUnit(engines.map(({ ttft_ms: ttftMs }) => ttftMs)),
})
