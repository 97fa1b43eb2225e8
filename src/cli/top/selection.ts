/** Which engines are shown, and in which order. */
import { type Column as Key, selectLines } from '../../dashboard/engine-selection.ts'
import { type EngineFigures, severityRank, type ViewFigures } from './figures.ts'

/** Sort keys; `state`: engines with problems first, else configured order. */
export const SORTS = [
  'state',
  'running',
  'queue',
  'blocks',
  'hits',
  'ttft',
  'failures',
  'engine',
] as const satisfies readonly Key[]

type Sort = (typeof SORTS)[number]

export interface Selection {
  readonly sort: Sort
  readonly reversed: boolean
  /** Filter words, as in the dashboard; '': all lines. */
  readonly only: string
}

/** Filters and sorts the engines. */
export function sorted(
  { engines }: Pick<ViewFigures, 'engines'>,
  { sort, reversed, only }: Selection,
): EngineFigures[] {
  const wanted = { text: only, state: 'all' as const }
  // Figures in descending order, names in ascending order.
  if (sort !== 'state')
    return selectLines(engines, { ...wanted, column: sort, descending: (sort !== 'engine') !== reversed })
  const order = selectLines(engines, { ...wanted, column: 'cluster', descending: false }).sort(
    (a, b) => severityRank(a.state) - severityRank(b.state),
  )
  return reversed ? order.reverse() : order
}
