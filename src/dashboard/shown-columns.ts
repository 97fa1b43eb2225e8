import type { Column } from './engine-selection.ts'
import { type EngineLine, roleOf } from './engine-state.ts'

/** Columns that would say the same in every row are left out. */
export interface ShownColumns {
  readonly cluster: boolean
  readonly role: boolean
}

export const shownIn = (lines: readonly EngineLine[]): ShownColumns => ({
  cluster: new Set(lines.map(({ pool }) => pool)).size > 1,
  role: new Set(lines.map(roleOf)).size > 1,
})

export const isShown = (shown: ShownColumns, column: Column): boolean =>
  (column !== 'cluster' || shown.cluster) && (column !== 'role' || shown.role)
