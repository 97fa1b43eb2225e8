import { anchorOf } from './concerns.ts'
import { DrainButton } from './drain-button.tsx'
import { Cell, EngineName, Reported, StateCell } from './engine-cells.tsx'
import { type EngineLine, isGateway, roleOf } from './engine-state.ts'
import { count, inUnit, percent } from './format.ts'
import { queueMs, type ShownColumns } from './shown-columns.ts'
import { Sparkline } from './sparkline.tsx'

/** What is shown below a row: the last changes of its state, or the engines of its region. */
export type RowDetail = 'history' | 'engines'

interface RowProps {
  readonly line: EngineLine
  readonly shown: ShownColumns
  /** null: nothing. */
  readonly open: RowDetail | null
  readonly onToggle: (detail: RowDetail) => void
}

export function EngineRow({ line, shown, open, onToggle }: RowProps) {
  const { engine, pool } = line
  const toggle = { id: engine.id, open, onToggle }
  return (
    <tr data-engine={engine.id} id={anchorOf(line)}>
      <EngineName engine={engine} />
      {shown.cluster && (
        <Cell label="cluster">
          <span class="name short">
            {pool.cluster} <span class="dim model">{pool.model}</span>
          </span>
        </Cell>
      )}
      {shown.role && <Cell label="role">{roleOf(line)}</Cell>}
      <StateCell line={line} />
      <LoadCells line={line} shown={shown} />
      <Cell label="last TTFTs">
        <Sparkline values={engine.recent_ttft_ms ?? []} />
      </Cell>
      <td class="act">
        {isGateway(pool) && <Toggle {...toggle} detail="engines" about="Engines of this region" />}
        {engine.changes !== undefined && <Toggle {...toggle} detail="history" about="Last changes of its state" />}
        {engine.available !== null && <DrainButton engine={engine} place={{ cluster: pool.cluster }} />}
      </td>
    </tr>
  )
}

interface ToggleProps extends Pick<RowProps, 'open' | 'onToggle'> {
  readonly id: string
  readonly detail: RowDetail
  readonly about: string
}

function Toggle({ id, detail, about, open, onToggle }: ToggleProps) {
  return (
    <button
      type="button"
      class="small"
      aria-expanded={open === detail}
      aria-label={`${detail} of ${id}`}
      title={about}
      onClick={() => onToggle(detail)}
    >
      {open === detail ? 'close' : detail}
    </button>
  )
}

function LoadCells({ line, shown }: Pick<RowProps, 'line' | 'shown'>) {
  const { engine } = line
  return (
    <>
      <Cell label="running" number>
        {count(engine.requests)}
      </Cell>
      {shown.load && <ReportedLoad line={line} shown={shown} />}
      <Cell label="hit rate" number>
        {percent(engine.hit_rate)}
        <SilentMissMark engine={engine} />
      </Cell>
      <Cell label="TTFT" number>
        {inUnit(engine.ttft_ms, shown.ttftUnit)}
      </Cell>
      {shown.load && (
        <Cell label="prediction error" number>
          {percent(engine.learned?.ttft_error)}
        </Cell>
      )}
      <Cell label="requests" number>
        {count(engine.requests_total)}
      </Cell>
      <Cell label="failures" number>
        {count(engine.failures_total)}
      </Cell>
    </>
  )
}

function ReportedLoad({ line, shown }: Pick<RowProps, 'line' | 'shown'>) {
  const { engine } = line
  return (
    <>
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
    </>
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
