import { cellsOf, sanitize, truncateTo } from './plain-text.ts'
import type { Span, TextLine } from './spans.ts'

export interface Column<Row> {
  readonly head: string
  readonly of: (row: Row) => Span
  /** Columns with a higher rank are dropped first; 0 is never dropped. */
  readonly rank: number
  /** Minimum width in cells, so that later columns do not move when values change. */
  readonly minCells: number
  /** Names are left-aligned, figures right-aligned. */
  readonly left?: true
  /** The last column takes the remaining width, and is dropped if that is small. */
  readonly rest?: true
}

const GAP = 2

const MIN_REST = 24

/** Names longer than this are truncated. */
const MAX_CELLS = 40

interface FilledColumn<Row> {
  readonly column: Column<Row>
  readonly spans: readonly Span[]
  readonly width: number
}

/** Formats the head first. `cells` may be Infinity for plain output. */
export function tableOf<Row>(columns: readonly Column<Row>[], rows: readonly Row[], cells: number): TextLine[] {
  const fits = fitting(
    columns.map((column) => filled(column, rows)),
    cells,
  )
  const head = fits.flatMap((fit, index) => spanned({ text: fit.column.head, tone: 'head' }, fit, index))
  // The background of the head extends to the edge of the screen.
  const bar = Number.isFinite(cells)
    ? [{ text: ' '.repeat(Math.max(0, cells - widthOf(fits))), tone: 'head' as const }]
    : []
  return [
    [...head, ...bar],
    ...rows.map((_, row) => fits.flatMap((fit, index) => spanned(fit.spans[row]!, fit, index))),
  ]
}

const widthOf = (fits: readonly { readonly width: number }[]): number =>
  fits.reduce((sum, { width }) => sum + width + GAP, -GAP)

function filled<Row>(column: Column<Row>, rows: readonly Row[]): FilledColumn<Row> {
  const spans = rows.map((row) => {
    const span = column.of(row)
    const text = sanitize(span.text)
    return { ...span, text: column.rest ? text : truncateTo(text, MAX_CELLS) }
  })
  return {
    column,
    spans,
    width: spans.reduce(
      (max, { text }) => Math.max(max, cellsOf(text)),
      Math.max(column.minCells, cellsOf(column.head)),
    ),
  }
}

/** Selects the columns that fit, and gives the rest of the width to the last. */
function fitting<Row>(columns: readonly FilledColumn<Row>[], cells: number): FilledColumn<Row>[] {
  let kept = columns.filter(({ column, spans }) => !column.rest || spans.some(({ text }) => text !== ''))
  for (;;) {
    const needed = kept.reduce(
      (sum, { column, width }) => sum + (column.rest ? Math.min(width, MIN_REST) : width) + GAP,
      -GAP,
    )
    const max = kept.reduce((highest, { column }) => Math.max(highest, column.rank), 0)
    if (needed <= cells || max === 0) break
    const goes = kept.findLast(({ column }) => column.rank === max)
    kept = kept.filter((one) => one !== goes)
  }
  const others = kept.reduce((sum, { column, width }) => sum + (column.rest ? 0 : width + GAP), 0)
  return kept.map((one) => (one.column.rest ? { ...one, width: Math.min(one.width, cells - others) } : one))
}

/** Formats a cell with the gap before it. The style of a head includes its blanks. */
function spanned<Row>({ text, tone = null }: Span, { column, width }: FilledColumn<Row>, index: number): Span[] {
  const behind = tone === 'head' ? tone : null
  const fit = { text: truncateTo(text, width), tone }
  const gap = { text: ' '.repeat(index === 0 ? 0 : GAP), tone: behind }
  const blanks = { text: ' '.repeat(Math.max(0, width - cellsOf(fit.text))), tone: behind }
  return column.left ? [gap, fit, blanks] : [gap, blanks, fit]
}
