import { Fragment } from 'preact'
import { useState } from 'preact/hooks'
import { EngineChanges } from './engine-changes.tsx'
import { EngineRow } from './engine-row.tsx'
import type { EngineLine } from './engine-state.ts'
import type { ShownColumns } from './shown-columns.ts'

/** More than the table has at most. */
const COLUMNS = 20

const keyOf = ({ pool, engine }: EngineLine): string => `${pool.cluster} ${pool.model} ${engine.id}`

/** Rows of the engines. One of them may show the last changes of its state. */
export function EngineRows({ lines, shown }: { readonly lines: readonly EngineLine[]; readonly shown: ShownColumns }) {
  const [open, setOpen] = useState<string | null>(null)
  return (
    <tbody>
      {lines.map((line) => (
        <Fragment key={keyOf(line)}>
          <EngineRow
            line={line}
            shown={shown}
            isOpen={open === keyOf(line)}
            onToggle={() => setOpen((last) => (last === keyOf(line) ? null : keyOf(line)))}
          />
          {open === keyOf(line) && (
            <tr class="why">
              <td colSpan={COLUMNS}>
                <EngineChanges changes={line.engine.changes ?? []} />
              </td>
            </tr>
          )}
        </Fragment>
      ))}
    </tbody>
  )
}
