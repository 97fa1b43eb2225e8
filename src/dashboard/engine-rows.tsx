import { Fragment } from 'preact'
import { useState } from 'preact/hooks'
import { EngineChanges } from './engine-changes.tsx'
import { EngineRow, type RowDetail } from './engine-row.tsx'
import type { EngineLine } from './engine-state.ts'
import { RegionEngines } from './region-engines.tsx'
import type { ShownColumns } from './shown-columns.ts'

/** More than the table has at most. */
const COLUMNS = 20

const keyOf = ({ pool, engine }: EngineLine): string => `${pool.cluster} ${pool.model} ${engine.id}`

/** Rows of the engines. One of them may show its details. */
export function EngineRows({ lines, shown }: { readonly lines: readonly EngineLine[]; readonly shown: ShownColumns }) {
  const [open, setOpen] = useState<{ readonly key: string; readonly detail: RowDetail } | null>(null)
  const toggle = (key: string, detail: RowDetail) =>
    setOpen((last) => (last?.key === key && last.detail === detail ? null : { key, detail }))
  return (
    <tbody>
      {lines.map((line) => {
        const key = keyOf(line)
        const detail = open?.key === key ? open.detail : null
        return (
          <Fragment key={key}>
            <EngineRow line={line} shown={shown} open={detail} onToggle={(next) => toggle(key, next)} />
            {detail !== null && (
              <tr class="why">
                <td colSpan={COLUMNS}>
                  {detail === 'history' ? (
                    <EngineChanges changes={line.engine.changes ?? []} />
                  ) : (
                    <RegionEngines pool={line.pool} />
                  )}
                </td>
              </tr>
            )}
          </Fragment>
        )
      })}
    </tbody>
  )
}
