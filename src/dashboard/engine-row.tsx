import type { ComponentChildren } from 'preact'
import { anchorOf, isStale } from './concerns.ts'
import { DrainButton } from './drain-button.tsx'
import { type EngineLine, roleOf } from './engine-state.ts'
import { reasonOf } from './failure-text.ts'
import { count, inUnit, percent } from './format.ts'
import { queueMs, type ShownColumns } from './shown-columns.ts'
import { Sparkline } from './sparkline.tsx'

interface RowProps {
  readonly line: EngineLine
  readonly shown: ShownColumns
  /** Whether the last changes of its state are shown below the row. */
  readonly isOpen: boolean
  readonly onToggle: () => void
}

export function EngineRow({ line, shown, isOpen, onToggle }: RowProps) {
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
      <LoadCells line={line} shown={shown} />
      <Cell label="last TTFTs">
        <Sparkline values={engine.recent_ttft_ms ?? []} />
      </Cell>
      <td class="act">
        {engine.changes !== undefined && (
          <button
            type="button"
            class="small"
            aria-expanded={isOpen}
            aria-label={`history of ${engine.id}`}
            title="Last changes of its state"
            onClick={onToggle}
          >
            {isOpen ? 'close' : 'history'}
          </button>
        )}
        {engine.available !== null && <DrainButton line={line} />}
      </td>
    </tr>
  )
}

function LoadCells({ line, shown }: Pick<RowProps, 'line' | 'shown'>) {
  const { engine } = line
  return (
    <>
      <Cell label="running" number>
        {count(engine.requests)}
      </Cell>
      <Cell label="active blocks" number>
        {count(engine.active_blocks)}
      </Cell>
      <Cell label="prefill queue" number>
        {inUnit(queueMs(line), shown.queueUnit)}
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
        {inUnit(engine.ttft_ms, shown.ttftUnit)}
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
function Reported({ engine, children }: Pick<EngineLine, 'engine'> & { readonly children: ComponentChildren }) {
  if (!isStale(engine)) return <>{children}</>
  return (
    <span class="stale" title={`The metrics of this engine are ${Math.round(engine.stats!.age_ms / 1000)} s old.`}>
      {children}
    </span>
  )
}

function SilentMissMark({ engine }: Pick<EngineLine, 'engine'>) {
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
