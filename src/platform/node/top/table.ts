/** Rows under heads, in the columns that fit. */
import { cellsOf, cutTo, harmless } from './plain-text.ts'
import type { Line, Span } from './spans.ts'

export interface Column<Row> {
  readonly head: string
  readonly of: (row: Row) => Span
  /** Where room is short the highest goes first; 0 stays. */
  readonly rank: number
  /** Cells at least, so that the columns after it do not move with every figure. */
  readonly least: number
  /** Names stand left, figures right. */
  readonly left?: true
  /** The last one may take what the others leave; it goes where that is little. */
  readonly rest?: true
}

const GAP = 2
const LEAST_REST = 24
/** A name longer than this is cut. */
const MOST_CELLS = 40

interface Filled<Row> {
  readonly column: Column<Row>
  readonly spans: readonly Span[]
  readonly width: number
}

/** The head first. `cells` may be Infinity, where no terminal ends the lines. */
export function tableOf<Row>(columns: readonly Column<Row>[], rows: readonly Row[], cells: number): Line[] {
  const fits = fitting(columns.map((column) => filled(column, rows)), cells)
  const head = fits.flatMap((fit, index) => spanned({ text: fit.column.head, tone: 'head' }, fit, index))
  // The bar behind the heads goes on to the edge.
  const bar = Number.isFinite(cells) ? [{ text: ' '.repeat(Math.max(0, cells - widthOf(fits))), tone: 'head' as const }] : []
  return [[...head, ...bar], ...rows.map((_, row) => fits.flatMap((fit, index) => spanned(fit.spans[row]!, fit, index)))]
}

const widthOf = (fits: readonly { readonly width: number }[]): number => fits.reduce((sum, { width }) => sum + width + GAP, -GAP)

function filled<Row>(column: Column<Row>, rows: readonly Row[]): Filled<Row> {
  const spans = rows.map((row) => {
    const span = column.of(row)
    const text = harmless(span.text)
    return { ...span, text: column.rest ? text : cutTo(text, MOST_CELLS) }
  })
  return { column, spans, width: spans.reduce((most, { text }) => Math.max(most, cellsOf(text)), Math.max(column.least, cellsOf(column.head))) }
}

/** What fits, the rest in the width that is left for it. */
function fitting<Row>(columns: readonly Filled<Row>[], cells: number): Filled<Row>[] {
  let kept = columns.filter(({ column, spans }) => !column.rest || spans.some(({ text }) => text !== ''))
  for (;;) {
    const needed = kept.reduce((sum, { column, width }) => sum + (column.rest ? Math.min(width, LEAST_REST) : width) + GAP, -GAP)
    const most = kept.reduce((highest, { column }) => Math.max(highest, column.rank), 0)
    if (needed <= cells || most === 0) break
    const goes = kept.findLast(({ column }) => column.rank === most)
    kept = kept.filter((one) => one !== goes)
  }
  const others = kept.reduce((sum, { column, width }) => sum + (column.rest ? 0 : width + GAP), 0)
  return kept.map((one) => (one.column.rest ? { ...one, width: Math.min(one.width, cells - others) } : one))
}

/** A cell, with the gap before it. The tone of a head is drawn behind its blanks too. */
function spanned<Row>({ text, tone = null }: Span, { column, width }: Filled<Row>, index: number): Span[] {
  const behind = tone === 'head' ? tone : null
  const fit = { text: cutTo(text, width), tone }
  const gap = { text: ' '.repeat(index === 0 ? 0 : GAP), tone: behind }
  const blanks = { text: ' '.repeat(Math.max(0, width - cellsOf(fit.text))), tone: behind }
  return column.left ? [gap, fit, blanks] : [gap, blanks, fit]
}
