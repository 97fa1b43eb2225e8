/** Renders a view as lines for a screen, or for plain output. */
import { isGateway } from '../../dashboard/engine-state.ts'
import { clock, count, plural, seconds } from '../../dashboard/format.ts'
import type { View } from '../../dashboard/wire.ts'
import { engineColumns, poolColumns, rate } from './columns.ts'
import { isSevere, type ViewFigures } from './figures.ts'
import { type Selection, sorted } from './selection.ts'
import type { TextLine } from './spans.ts'
import { tableOf } from './table.ts'

export interface Frame {
  readonly figures: ViewFigures
  readonly selection: Selection
  readonly url: string
  /** Number of engine lines scrolled past. */
  readonly skipped: number
  /** Why the view is out of date; null: it is current. */
  readonly stale: string | null
}

/** Lines of both table heads, the separator and the footer. */
const HEADS_AND_FOOT = 4

interface DrawnScreen {
  /** The whole screen, at most as many lines as it has rows. */
  readonly lines: readonly TextLine[]
  /** The requested scroll offset, limited to the content. */
  readonly skipped: number
}

export function screenOf(
  frame: Frame,
  { rows, cells }: { readonly rows: number; readonly cells: number },
): DrawnScreen {
  const { figures, selection } = frame
  const lines = [...headOf(frame), []]
  const wanted = sorted(figures, selection)
  // Pools get at most half of the rows, unless the engines need fewer.
  const room = rows - lines.length - HEADS_AND_FOOT
  const pools = limited(figures.pools, {
    maxLines: Math.max(1, Math.floor(room / 2), room - wanted.length),
    skipped: 0,
  })
  lines.push(...tableOf(poolColumns(kindsOf(figures)), pools.shown, cells), ...moreLine(pools.more, 'pool'), [])
  const maxLines = Math.max(1, rows - lines.length - 2)
  const engines = limited(wanted, { maxLines, skipped: frame.skipped })
  lines.push(
    ...tableOf(engineColumns(kindsOf(figures)), engines.shown, cells),
    ...moreLine(engines.more, 'engine', engines.above),
  )
  while (lines.length < rows - 1) lines.push([])
  return { lines: [...lines.slice(0, Math.max(0, rows - 1)), footOf(selection)].slice(0, rows), skipped: engines.above }
}

/** Renders all lines without a limit, for a pipe. */
export function reportOf(frame: Frame, cells: number): TextLine[] {
  const { figures, selection } = frame
  return [
    ...headOf(frame),
    [],
    ...tableOf(poolColumns(kindsOf(figures)), figures.pools, cells),
    [],
    ...tableOf(engineColumns(kindsOf(figures)), sorted(figures, selection), cells),
  ]
}

function headOf({ figures: { view, fleet, engines }, selection, url, stale }: Frame): TextLine[] {
  const running: TextLine = [
    {
      text: `${fleet.up} of ${plural(fleet.engines, 'engine')} up`,
      tone: fleet.up === fleet.engines ? 'good' : engines.some(({ state }) => isSevere(state)) ? 'bad' : 'warn',
    },
    {
      text:
        ` · ${count(fleet.running)} running · ${rate(fleet.requestsPerS)} requests/s · longest queue ` +
        `${seconds(fleet.longestS)}`,
    },
    { text: selection.only === '' ? '' : ` · only: ${selection.only}`, tone: 'warn' },
  ]
  const problem = stale ?? problemOf(view)
  const whose: TextLine = [
    { text: `Firstlight ${view.version}`, tone: 'strong' },
    { text: ` ${url} · up ${age(view.at - view.started_at)} · ${clock(view.at)}` },
  ]
  return [
    problem === null ? whose : [{ text: problem, tone: 'bad' }, { text: ` · ${url} · ${clock(view.at)}` }],
    running,
  ]
}

function problemOf({ draining, replicas = [] }: View): string | null {
  const away = replicas.filter(({ state }) => state === 'away').map(({ host }) => host)
  if (draining) return 'shutting down, accepts no new requests'
  return away.length > 0 ? `replicas away: ${away.join(', ')}` : null
}

function footOf({ sort, reversed }: Selection): TextLine {
  return [
    {
      text: `q quit  s sort: ${sort}${reversed ? ', reversed' : ''}  r reverse  ↑↓ PgUp PgDn scroll  space hold`,
      tone: 'dim',
    },
  ]
}

function moreLine(more: number, what: string, above = 0): TextLine[] {
  if (more === 0 && above === 0) return []
  const parts = [...(more > 0 ? [`${plural(more, `more ${what}`)}`] : []), ...(above > 0 ? [`${above} above`] : [])]
  return [[{ text: `… ${parts.join(', ')}`, tone: 'dim' }]]
}

interface LimitedList<Item> {
  readonly shown: readonly Item[]
  readonly above: number
  readonly more: number
}

/** Limits the lines to the available rows, including the line that counts the hidden ones. */
function limited<Item>(
  items: readonly Item[],
  { maxLines, skipped }: { readonly maxLines: number; readonly skipped: number },
): LimitedList<Item> {
  if (items.length <= maxLines) return { shown: items, above: 0, more: 0 }
  const room = Math.max(0, maxLines - 1)
  const above = Math.min(skipped, items.length - room)
  return { shown: items.slice(above, above + room), above, more: items.length - above - room }
}

function kindsOf({ engines, pools, view }: ViewFigures): {
  readonly many: boolean
  readonly split: boolean
  readonly regional: boolean
} {
  const regional = view.pools.some(isGateway)
  return {
    many: pools.length > 1,
    split: engines.some(({ engine }) => engine.role !== 'any') || (regional && !view.pools.every(isGateway)),
    regional,
  }
}

/** Formats an age with two units if the smaller one matters. */
function age(sinceMs: number): string {
  const s = Math.max(0, Math.floor(sinceMs / 1000))
  const [days, hours, minutes] = [Math.floor(s / 86_400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60]
  if (days > 0) return `${days} d ${hours} h`
  if (hours > 0) return `${hours} h ${minutes} min`
  return minutes > 0 ? `${minutes} min ${s % 60} s` : `${s} s`
}
