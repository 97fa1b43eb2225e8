import { useState } from 'preact/hooks'
import { EngineFilter } from './engine-filter.tsx'
import { EngineHeads } from './engine-heads.tsx'
import { EngineRows } from './engine-rows.tsx'
import { type Column, type Selection, selectLines } from './engine-selection.ts'
import type { EngineLine } from './engine-state.ts'
import { plural } from './format.ts'
import { useRowLimit } from './row-limit.ts'
import { shownIn } from './shown-columns.ts'

/** All engines in one table with sorting and filter. */
export function Engines({ lines }: { readonly lines: readonly EngineLine[] }) {
  const [selection, setSelection] = useState<Selection>({ text: '', state: 'all', column: 'engine', descending: false })
  const rows = selectLines(lines, selection)
  const shown = shownIn(lines)
  const all = plural(lines.length, shown.load ? 'engine' : 'region')
  const { drawn, showAll } = useRowLimit(rows)
  const sort = (column: Column, isNumber: boolean) =>
    setSelection((last) => ({ ...last, column, descending: last.column === column ? !last.descending : isNumber }))
  return (
    <section aria-labelledby="engines">
      <div class="head">
        <h2 id="engines">Engines</h2>
        <EngineFilter selection={selection} onSelect={setSelection} />
        <span class="dim" role="status">
          {rows.length === lines.length ? all : `${rows.length} of ${all}`}
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
          <EngineRows lines={drawn} shown={shown} />
        </table>
      )}
      {showAll !== null && (
        <button type="button" onClick={showAll}>
          Show all {rows.length}
        </button>
      )}
    </section>
  )
}
