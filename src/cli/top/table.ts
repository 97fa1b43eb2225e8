import { type EngineState, isGateway, roleOf, regionText } from '../../dashboard/engine-state.ts'
import { count, ms, number, percent, seconds } from '../../dashboard/format.ts'
import { isSevere, type EngineFigures, type PoolFigures } from './figures.ts'

/** Sanitises untrusted text for a terminal: removes control sequences and computes the display width. */

/** Control characters, escapes, bidirectional marks, combining marks and line separators. */
const ACTING = /[\p{C}\p{M}\p{Zl}\p{Zp}]/gu
/** Characters that take two cells (East Asian Width W and F, and emoji). */
const WIDE_RANGES = [
  String.raw`\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60`,
  String.raw`\uffe0-\uffe6\u{17000}-\u{18aff}\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}`,
].join('')
const WIDE = new RegExp(`[${WIDE_RANGES}]|\\p{Emoji_Presentation}`, 'u')

/** Normalises text to visible characters of one or two cells. */
export const harmless = (text: string): string => text.normalize('NFC').replace(ACTING, '·')

const cellsOfOne = (character: string): number => (WIDE.test(character) ? 2 : 1)

/** Computes the terminal columns of sanitised text. */
export function cellsOf(text: string): number {
  let cells = 0
  for (const character of text) cells += cellsOfOne(character)
  return cells
}

/** Truncates sanitised text to a number of cells, with `…` if something is cut. */
export function cutTo(text: string, cells: number): string {
  if (cellsOf(text) <= cells) return text
  let kept = ''
  let left = cells - 1
  for (const character of text) {
    left -= cellsOfOne(character)
    if (left < 0) break
    kept += character
  }
  return cells < 1 ? '' : `${kept}…`
}

/* Lines of styled text, and their encoding for a terminal. */

/** Styles. The text carries the same information without them. */
export type Tone = 'good' | 'warn' | 'bad' | 'dim' | 'strong' | 'head'

export interface Span {
  readonly text: string
  readonly tone?: Tone | null
}

export type Line = readonly Span[]

const CODES: Readonly<Record<Tone, string>> = { good: '32', warn: '33', bad: '1;31', dim: '2', strong: '1', head: '7' }

/**
 * Encodes a line in at most `cells` columns, with or without colours. All terminal output passes through here, so
 * untrusted names and errors are sanitised in this one place.
 */
export function painted(line: Line, { cells, colours }: { readonly cells: number; readonly colours: boolean }): string {
  let left = cells
  let out = ''
  for (const { text, tone } of line) {
    const fit = cutTo(harmless(text), left)
    left -= cellsOf(fit)
    out += colours && tone && fit !== '' ? `\u001b[${CODES[tone]}m${fit}\u001b[0m` : fit
  }
  // Trailing blanks of a coloured head are visible; in plain text they are not needed.
  return colours ? out : out.trimEnd()
}

/* The tables of pools and engines. Unknown values are a dash, never zero. */

export const poolName = ({ cluster, model }: { readonly cluster: string; readonly model: string }): string =>
  `${cluster} ${model}`

const plain = (text: string) => ({ text })

const POOL_COLUMNS: readonly Column<PoolFigures>[] = [
  { head: 'POOL', rank: 0, least: 10, left: true, of: ({ pool }) => plain(pool === null ? 'all' : poolName(pool)) },
  { head: 'UP', rank: 0, least: 5, of: upOf },
  { head: 'RUNNING', rank: 0, least: 7, of: ({ running }) => plain(count(running)) },
  { head: 'REQ/S', rank: 2, least: 6, of: ({ requestsPerS }) => plain(rate(requestsPerS)) },
  { head: 'QUEUE', rank: 4, least: 6, of: ({ queuedTokens }) => plain(tokens(queuedTokens)) },
  { head: 'WAIT', rank: 3, least: 6, of: ({ longestS }) => plain(seconds(longestS)) },
  { head: 'HIT', rank: 3, least: 4, of: ({ hitRate }) => plain(percent(hitRate)) },
  { head: 'TTFT P50', rank: 1, least: 8, of: ({ ttftP50Ms }) => plain(ms(ttftP50Ms)) },
  { head: 'P99', rank: 1, least: 7, of: ({ ttftP99Ms }) => plain(ms(ttftP99Ms)) },
  { head: 'OF LAST', rank: 6, least: 7, of: ({ ttfts }) => plain(count(ttfts)) },
  {
    head: 'POLICY',
    rank: 5,
    least: 9,
    left: true,
    of: ({ pool }) => plain(pool === null || isGateway(pool) ? '' : pool.policy),
  },
]

const BEHIND: Column<PoolFigures> = {
  head: 'BEHIND ITS GATEWAY',
  rank: 2,
  least: 0,
  left: true,
  rest: true,
  of: behindOf,
}

/** `regional`: includes clusters behind other gateways. */
export const poolColumns = ({ regional }: { readonly regional: boolean }): readonly Column<PoolFigures>[] =>
  regional ? [...POOL_COLUMNS, BEHIND] : POOL_COLUMNS

function behindOf({ pool }: PoolFigures) {
  if (pool === null || !isGateway(pool)) return plain('')
  const isWell = pool.gateway?.reachable === true && pool.gateway.blocking_match
  return { text: regionText(pool).join(', '), tone: isWell ? null : ('warn' as const) }
}

function upOf({ pool, up, engines }: PoolFigures) {
  if (pool?.reachable === false) return { text: 'out of reach', tone: 'bad' as const }
  return { text: `${up}/${engines}`, tone: up === engines ? null : up === 0 ? ('bad' as const) : ('warn' as const) }
}

interface Variety {
  /** Engines of several pools, so each line names its pool. */
  readonly many: boolean
  /** Roles differ. */
  readonly split: boolean
}

export const engineColumns = (variety: Variety): readonly Column<EngineFigures>[] =>
  ENGINE_COLUMNS.filter(({ when }) => when === undefined || variety[when])

const ENGINE_COLUMNS: readonly (Column<EngineFigures> & { readonly when?: keyof Variety })[] = [
  {
    head: 'ENGINE',
    rank: 0,
    least: 10,
    left: true,
    of: ({ engine, state }) => ({ text: engine.id, tone: state === 'up' ? null : 'strong' }),
  },
  { head: 'POOL', rank: 4, least: 8, left: true, of: ({ pool }) => plain(poolName(pool)), when: 'many' },
  { head: 'ROLE', rank: 8, least: 7, left: true, of: (line) => plain(roleOf(line)), when: 'split' },
  {
    head: 'STATE',
    rank: 0,
    least: 9,
    left: true,
    of: ({ state, text }) => ({ text, tone: toneOf(state) }),
  },
  { head: 'RUN', rank: 0, least: 3, of: ({ engine }) => plain(count(engine.requests)) },
  { head: 'REQ/S', rank: 5, least: 5, of: ({ grown }) => plain(rate(grown?.requestsPerS)) },
  { head: 'QUEUE', rank: 6, least: 6, of: ({ engine }) => plain(tokens(engine.queued_prefill_tokens)) },
  { head: 'WAIT', rank: 1, least: 6, of: ({ engine }) => plain(seconds(engine.queued_prefill_s)) },
  { head: 'HIT', rank: 2, least: 4, of: ({ engine }) => plain(percent(engine.hit_rate)) },
  { head: 'TTFT', rank: 2, least: 7, of: ({ engine }) => plain(ms(engine.ttft_ms)) },
  { head: 'LIVE', rank: 9, least: 4, of: ({ engine }) => plain(count(engine.active_blocks)) },
  { head: 'CACHED', rank: 7, least: 7, of: ({ engine }) => plain(cached(engine)) },
  { head: 'KV', rank: 11, least: 4, of: ({ engine }) => plain(percent(engine.stats?.kv_usage)) },
  { head: 'WAITING', rank: 12, least: 7, of: ({ engine }) => plain(count(engine.stats?.waiting)) },
  { head: 'TOTAL', rank: 13, least: 7, of: ({ engine }) => plain(count(engine.requests_total)) },
  {
    head: 'FAILED',
    rank: 10,
    least: 6,
    of: ({ engine, grown }) => ({
      text: count(engine.failures_total),
      tone: (grown?.failures ?? 0) > 0 ? 'bad' : null,
    }),
  },
  {
    head: 'NOTE',
    rank: 3,
    least: 0,
    left: true,
    rest: true,
    of: ({ notes }) => ({ text: notes.join('; '), tone: 'warn' }),
  },
]

const toneOf = (state: EngineState): Tone => (isSevere(state) ? 'bad' : state === 'up' ? 'good' : 'warn')

function cached({ cached_blocks: held, cache_blocks: most }: EngineFigures['engine']): string {
  return most === null || most === undefined ? count(held) : `${count(held)}/${count(most)}`
}

/** One decimal place, so that the column width is stable. */
export const rate = (perS: number | null | undefined): string =>
  perS === null || perS === undefined || perS >= 100 ? count(perS) : perS.toFixed(1)

/** Formats tokens in at most seven characters. */
function tokens(value: number | null | undefined): string {
  return value !== null && value !== undefined && value >= 1e6 ? `${number(value / 1e6)}M` : count(value)
}

export interface Column<Row> {
  readonly head: string
  readonly of: (row: Row) => Span
  /** Columns with a higher rank are dropped first; 0 is never dropped. */
  readonly rank: number
  /** Minimum width in cells, so that later columns do not move when values change. */
  readonly least: number
  /** Names are left-aligned, figures right-aligned. */
  readonly left?: true
  /** The last column takes the remaining width, and is dropped if that is small. */
  readonly rest?: true
}

const GAP = 2
const LEAST_REST = 24
/** Names longer than this are truncated. */
const MOST_CELLS = 40

interface Filled<Row> {
  readonly column: Column<Row>
  readonly spans: readonly Span[]
  readonly width: number
}

/** Formats the head first. `cells` may be Infinity for plain output. */
export function tableOf<Row>(columns: readonly Column<Row>[], rows: readonly Row[], cells: number): Line[] {
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

function filled<Row>(column: Column<Row>, rows: readonly Row[]): Filled<Row> {
  const spans = rows.map((row) => {
    const span = column.of(row)
    const text = harmless(span.text)
    return { ...span, text: column.rest ? text : cutTo(text, MOST_CELLS) }
  })
  return {
    column,
    spans,
    width: spans.reduce(
      (most, { text }) => Math.max(most, cellsOf(text)),
      Math.max(column.least, cellsOf(column.head)),
    ),
  }
}

/** Selects the columns that fit, and gives the rest of the width to the last. */
function fitting<Row>(columns: readonly Filled<Row>[], cells: number): Filled<Row>[] {
  let kept = columns.filter(({ column, spans }) => !column.rest || spans.some(({ text }) => text !== ''))
  for (;;) {
    const needed = kept.reduce(
      (sum, { column, width }) => sum + (column.rest ? Math.min(width, LEAST_REST) : width) + GAP,
      -GAP,
    )
    const most = kept.reduce((highest, { column }) => Math.max(highest, column.rank), 0)
    if (needed <= cells || most === 0) break
    const goes = kept.findLast(({ column }) => column.rank === most)
    kept = kept.filter((one) => one !== goes)
  }
  const others = kept.reduce((sum, { column, width }) => sum + (column.rest ? 0 : width + GAP), 0)
  return kept.map((one) => (one.column.rest ? { ...one, width: Math.min(one.width, cells - others) } : one))
}

/** Formats a cell with the gap before it. The style of a head includes its blanks. */
function spanned<Row>({ text, tone = null }: Span, { column, width }: Filled<Row>, index: number): Span[] {
  const behind = tone === 'head' ? tone : null
  const fit = { text: cutTo(text, width), tone }
  const gap = { text: ' '.repeat(index === 0 ? 0 : GAP), tone: behind }
  const blanks = { text: ' '.repeat(Math.max(0, width - cellsOf(fit.text))), tone: behind }
  return column.left ? [gap, fit, blanks] : [gap, blanks, fit]
}
