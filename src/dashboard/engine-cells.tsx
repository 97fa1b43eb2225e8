/** Cells of tables of engines. */
import type { ComponentChildren } from 'preact'
import { isStale } from './concerns.ts'
import type { EngineLine } from './engine-state.ts'
import { reasonOf } from './failure-text.ts'

interface CellProps {
  readonly label: string
  readonly number?: boolean
  readonly children: ComponentChildren
}

/** One value with its label, which replaces the head of the column in narrow windows. */
export function Cell({ label, number = false, children }: CellProps) {
  return (
    <td data-label={label} class={number ? 'number' : ''}>
      {children}
    </td>
  )
}

/** Name of an engine and version of its server. */
export function EngineName({ engine: { id, engine_version: version } }: Pick<EngineLine, 'engine'>) {
  return (
    <th scope="row">
      <span class="name">{id}</span>
      {version !== undefined && <span class="dim version"> {version}</span>}
    </th>
  )
}

/** State of an engine with its reason. */
export function StateCell({ line }: { readonly line: Parameters<typeof reasonOf>[0] & Pick<EngineLine, 'text'> }) {
  const reason = reasonOf(line)
  return (
    <Cell label="state">
      <span class={`state ${line.state}`}>{line.text}</span>
      {reason !== null && <span class="reason">{reason}</span>}
    </Cell>
  )
}

/** A value from the engine's metrics, grey with its age if it is stale. */
export function Reported({ engine, children }: Pick<EngineLine, 'engine'> & { readonly children: ComponentChildren }) {
  if (!isStale(engine)) return <>{children}</>
  return (
    <span class="stale" title={`The metrics of this engine are ${Math.round(engine.stats!.age_ms / 1000)} s old.`}>
      {children}
    </span>
  )
}
