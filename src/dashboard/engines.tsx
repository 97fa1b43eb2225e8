import { useState } from 'preact/hooks'
import { EngineRow } from './engine-row.tsx'
import { type Column, type Selection, selectLines } from './engine-selection.ts'
import type { EngineLine } from './engine-state.ts'
import { plural } from './format.ts'
import { isShown, type Shown, shownIn } from './shown-columns.ts'

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

/** Number of rows shown before the user asks for more. */
const FIRST_ROWS = 50

/** All engines in one table with sorting and filter. */
export function Engines({ lines }: { readonly lines: readonly EngineLine[] }) {
  const [selection, setSelection] = useState<Selection>({ text: '', state: 'all', column: 'engine', descending: false })
  const [all, setAll] = useState(false)
  const rows = selectLines(lines, selection)
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
