import { useState } from 'preact/hooks'
import { anchorOf, isStale, reasonOf } from './concerns.ts'
import { chosen, type Column, type Line, type Selection, roleOf } from './engine-state.ts'
import { plural, count, ms, percent, seconds } from './format.ts'
import type { ComponentChildren } from 'preact'
import { call } from './gateway.ts'

const WIDTH = 72
const HEIGHT = 22

/** The latest TTFTs of one engine, oldest first. The axis starts at zero, so that engines compare. */
export function Sparkline({ values }: { readonly values: readonly number[] }) {
  if (values.length < 2) return <span class="dim">–</span>
  const most = Math.max(...values, 1)
  const points = values.map((value, index) => {
    const x = 1 + (index / (values.length - 1)) * (WIDTH - 4)
    return `${x.toFixed(1)},${(HEIGHT - 2 - (value / most) * (HEIGHT - 5)).toFixed(1)}`
  })
  const [x, y] = points.at(-1)!.split(',')
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={`last ${values.length} TTFTs: ${ms(Math.min(...values))} to ${ms(most)}, now ${ms(values.at(-1))}`}
    >
      <polyline points={points.join(' ')} />
      <circle cx={x} cy={y} r="1.8" />
    </svg>
  )
}

interface RowProps {
  readonly line: Line
  readonly shown: Shown
}

export function EngineRow({ line, shown }: RowProps) {
  const { engine, pool, state, text } = line
  const reason = reasonOf(line)
  return (
    <tr data-engine={engine.id} id={anchorOf(line)}>
      <th scope="row">
        <span class="name">{engine.id}</span>
        {engine.engine_version !== undefined && <span class="dim version"> {engine.engine_version}</span>}
      </th>
      {shown.cluster && (
        <Cell label="cluster">
          <span class="name short">
            {pool.cluster} <span class="dim model">{pool.model}</span>
          </span>
        </Cell>
      )}
      {shown.role && <Cell label="role">{roleOf(line)}</Cell>}
      <Cell label="state">
        <span class={`state ${state}`}>{text}</span>
        {reason !== null && <span class="reason">{reason}</span>}
      </Cell>
      <LoadCells engine={engine} />
      <Cell label="last TTFTs">
        <Sparkline values={engine.recent_ttft_ms ?? []} />
      </Cell>
      <td class="act">{engine.available !== null && <DrainButton line={line} />}</td>
    </tr>
  )
}

function LoadCells({ engine }: Pick<Line, 'engine'>) {
  return (
    <>
      <Cell label="running" number>
        {count(engine.requests)}
      </Cell>
      <Cell label="active blocks" number>
        {count(engine.active_blocks)}
      </Cell>
      <Cell label="prefill queue" number>
        {seconds(engine.queued_prefill_s)}
      </Cell>
      <Cell label="waiting" number>
        <Reported engine={engine}>{count(engine.stats?.waiting)}</Reported>
      </Cell>
      <Cell label="KV use" number>
        <Reported engine={engine}>{percent(engine.stats?.kv_usage)}</Reported>
      </Cell>
      <Cell label="hit rate" number>
        {percent(engine.hit_rate)}
        <SilentMissMark engine={engine} />
      </Cell>
      <Cell label="TTFT" number>
        {ms(engine.ttft_ms)}
      </Cell>
      <Cell label="prediction error" number>
        {percent(engine.learned?.ttft_error)}
      </Cell>
      <Cell label="requests" number>
        {count(engine.requests_total)}
      </Cell>
      <Cell label="failures" number>
        {count(engine.failures_total)}
      </Cell>
    </>
  )
}

/** A value from the engine's metrics, grey with its age if it is stale. */
function Reported({ engine, children }: Pick<Line, 'engine'> & { readonly children: ComponentChildren }) {
  if (!isStale(engine)) return <>{children}</>
  return (
    <span class="stale" title={`The metrics of this engine are ${Math.round(engine.stats!.age_ms / 1000)} s old.`}>
      {children}
    </span>
  )
}

function SilentMissMark({ engine }: Pick<Line, 'engine'>) {
  const causes = engine.learned?.silent_miss ?? null
  if (causes === null) return null
  return (
    <abbr class="wrong" title={`Cache hits are predicted but never reported. Likely causes: ${causes.join('; ')}`}>
      {' '}
      !
    </abbr>
  )
}

function Cell({
  label,
  number = false,
  children,
}: {
  readonly label: string
  readonly number?: boolean
  readonly children: ComponentChildren
}) {
  return (
    <td data-label={label} class={number ? 'number' : ''}>
      {children}
    </td>
  )
}

/** Drains or undrains the engine. The new state arrives with the next view. */
function DrainButton({ line: { engine, pool } }: { readonly line: Line }) {
  const [isAsking, setAsking] = useState(false)
  const [problem, setProblem] = useState<string | null>(null)
  const verb = engine.draining ? 'undrain' : 'drain'
  const ask = async () => {
    setAsking(true)
    setProblem(null)
    try {
      await call(
        `v1/firstlight/engines/${encodeURIComponent(engine.id)}/${verb}?cluster=${encodeURIComponent(pool.cluster)}`,
        { method: 'POST' },
      )
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error))
    } finally {
      setAsking(false)
    }
  }
  return (
    <>
      <button
        type="button"
        class="small"
        disabled={isAsking}
        aria-label={`${verb} ${engine.id}`}
        onClick={() => void ask()}
      >
        {verb}
      </button>
      {problem !== null && (
        <span class="wrong" role="alert">
          {problem}
        </span>
      )}
    </>
  )
}

const HEADS: readonly (readonly [column: Column, title: string, isNumber: boolean])[] = [
  ['engine', 'engine', false],
  ['cluster', 'cluster', false],
  ['role', 'role', false],
  ['state', 'state', false],
  ['running', 'running', true],
  ['blocks', 'active blocks', true],
  ['queue', 'prefill queue', true],
  ['waiting', 'waiting', true],
  ['kv', 'KV use', true],
  ['hits', 'hit rate', true],
  ['ttft', 'TTFT', true],
  ['error', 'prediction error', true],
  ['requests', 'requests', true],
  ['failures', 'failures', true],
]

const STATES: readonly (readonly [Selection['state'], string])[] = [
  ['all', 'all states'],
  ['up', 'up'],
  ['trouble', 'not up'],
  ['draining', 'draining'],
  ['unhealthy', 'unhealthy'],
  ['circuit', 'circuit open'],
  ['asleep', 'asleep'],
  ['full', 'full'],
]

/** Columns that would say the same in every row are left out. */
interface Shown {
  readonly cluster: boolean
  readonly role: boolean
}

const shownIn = (lines: readonly Line[]): Shown => ({
  cluster: new Set(lines.map(({ pool }) => pool)).size > 1,
  role: new Set(lines.map(roleOf)).size > 1,
})

const isShown = (shown: Shown, column: Column): boolean =>
  (column !== 'cluster' || shown.cluster) && (column !== 'role' || shown.role)

/** Number of rows shown before the user asks for more. */
const FIRST_ROWS = 50

/** All engines in one table with sorting and filter. */
export function Engines({ lines }: { readonly lines: readonly Line[] }) {
  const [selection, setSelection] = useState<Selection>({ text: '', state: 'all', column: 'engine', descending: false })
  const [all, setAll] = useState(false)
  const rows = chosen(lines, selection)
  const shown = shownIn(lines)
  const drawn = all ? rows : rows.slice(0, FIRST_ROWS)
  const sort = (column: Column, isNumber: boolean) =>
    setSelection((last) => ({ ...last, column, descending: last.column === column ? !last.descending : isNumber }))
  return (
    <section aria-labelledby="engines">
      <div class="head">
        <h2 id="engines">Engines</h2>
        <Filter selection={selection} onSelect={setSelection} />
        <span class="dim" role="status">
          {rows.length === lines.length
            ? plural(lines.length, 'engine')
            : `${rows.length} of ${plural(lines.length, 'engine')}`}
        </span>
      </div>
      {rows.length === 0 ? (
        <p class="empty">
          {lines.length === 0
            ? 'No engine is configured. Add one under engines of a pool.'
            : 'No engine matches. Change the filter.'}
        </p>
      ) : (
        <table class="lines engines">
          <caption class="hidden">Engines with their load. The heads sort.</caption>
          <EngineHeads selection={selection} shown={shown} onSort={sort} />
          <tbody>
            {drawn.map((line) => (
              <EngineRow key={`${line.pool.cluster} ${line.pool.model} ${line.engine.id}`} line={line} shown={shown} />
            ))}
          </tbody>
        </table>
      )}
      {drawn.length < rows.length && (
        <button type="button" onClick={() => setAll(true)}>
          Show all {rows.length}
        </button>
      )}
    </section>
  )
}

function EngineHeads({
  selection,
  shown,
  onSort,
}: {
  readonly selection: Selection
  readonly shown: Shown
  readonly onSort: (column: Column, isNumber: boolean) => void
}) {
  return (
    <thead>
      <tr>
        {HEADS.filter(([column]) => isShown(shown, column)).map(([column, title, isNumber]) => (
          <Head
            key={column}
            title={title}
            isNumber={isNumber}
            direction={selection.column === column ? (selection.descending ? 'descending' : 'ascending') : 'none'}
            onSort={() => onSort(column, isNumber)}
          />
        ))}
        <th scope="col">last TTFTs</th>
        <th scope="col">
          <span class="hidden">drain</span>
        </th>
      </tr>
    </thead>
  )
}

function Filter({
  selection,
  onSelect,
}: {
  readonly selection: Selection
  readonly onSelect: (selection: Selection) => void
}) {
  return (
    <div class="filter">
      <input
        type="search"
        placeholder="name, cluster, model, role"
        aria-label="Filter engines"
        value={selection.text}
        onInput={(event) => onSelect({ ...selection, text: event.currentTarget.value })}
      />
      <select
        aria-label="Filter by state"
        value={selection.state}
        onChange={(event) => onSelect({ ...selection, state: event.currentTarget.value as Selection['state'] })}
      >
        {STATES.map(([state, title]) => (
          <option key={state} value={state}>
            {title}
          </option>
        ))}
      </select>
    </div>
  )
}

interface HeadProps {
  readonly title: string
  readonly isNumber: boolean
  readonly direction: 'ascending' | 'descending' | 'none'
  readonly onSort: () => void
}

function Head({ title, isNumber, direction, onSort }: HeadProps) {
  return (
    <th scope="col" aria-sort={direction} class={isNumber ? 'number' : ''}>
      <button type="button" onClick={onSort}>
        {title}
        <span aria-hidden="true">{direction === 'none' ? '' : direction === 'ascending' ? ' ↑' : ' ↓'}</span>
      </button>
    </th>
  )
}
