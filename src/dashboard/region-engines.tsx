import { useState } from 'preact/hooks'
import { DrainButton } from './drain-button.tsx'
import { Cell, EngineName, Reported, StateCell } from './engine-cells.tsx'
import { stateOf } from './engine-state.ts'
import { count, inUnit, percent } from './format.ts'
import { RegionHeads } from './region-heads.tsx'
import { type RegionColumns, regionColumns } from './region-columns.ts'
import { drainText, regionViewText } from './region-text.ts'
import type { RegionEngine } from './region-view.ts'
import { useRowLimit } from './row-limit.ts'
import { queueMs } from './shown-columns.ts'
import { useRegionView } from './use-region-view.ts'
import type { Pool } from './wire.ts'

/** Engines of a region behind another gateway: their state and load, and drain from here. */
export function RegionEngines({ pool }: { readonly pool: Pool }) {
  const { view, reload } = useRegionView(pool)
  const [result, setResult] = useState('')
  const { drawn, showAll } = useRowLimit(view.engines ?? [])
  const columns = regionColumns(view.engines ?? [])
  const onDone = (engine: RegionEngine, isDraining: boolean) => {
    setResult(drainText(engine, isDraining))
    void reload()
  }
  return (
    <div class="region" data-region={pool.cluster}>
      <div role="status">
        <p class={view.state === 'silent' || view.state === 'failed' ? 'bad' : 'dim'}>{regionViewText(view, pool)}</p>
        {result !== '' && <p data-result>{result}</p>}
      </div>
      {drawn.length > 0 && (
        <table class={`lines engines ${view.state === 'listed' ? '' : 'old'}`}>
          <caption class="hidden">
            Engines of {pool.cluster} that serve {pool.model}
          </caption>
          <RegionHeads columns={columns} />
          <tbody>
            {drawn.map((engine) => (
              <RegionRow
                key={`${engine.cluster} ${engine.id}`}
                engine={engine}
                pool={pool}
                columns={columns}
                onDone={(isDraining) => onDone(engine, isDraining)}
              />
            ))}
          </tbody>
        </table>
      )}
      {showAll !== null && (
        <button type="button" onClick={showAll}>
          Show all {view.engines!.length}
        </button>
      )}
    </div>
  )
}

interface RegionRowProps {
  readonly engine: RegionEngine
  readonly pool: Pool
  readonly columns: RegionColumns
  readonly onDone: (isDraining: boolean) => void
}

function RegionRow({ engine, pool, columns, onDone }: RegionRowProps) {
  const place = { cluster: pool.cluster, region_cluster: engine.cluster }
  return (
    <tr data-region-engine={engine.id}>
      <EngineName engine={engine} />
      {columns.cluster && <Cell label="cluster there">{engine.cluster}</Cell>}
      {columns.role && <Cell label="role">{engine.role}</Cell>}
      <StateCell line={{ engine, ...stateOf(engine) }} />
      <Cell label="running" number>
        {count(engine.requests)}
      </Cell>
      <Cell label="waiting" number>
        <Reported engine={engine}>{count(engine.stats?.waiting)}</Reported>
      </Cell>
      <Cell label="KV use" number>
        <Reported engine={engine}>{percent(engine.stats?.kv_usage)}</Reported>
      </Cell>
      <Cell label="hit rate" number>
        {percent(engine.hit_rate)}
      </Cell>
      <Cell label="prefill queue" number>
        {inUnit(queueMs({ engine }), columns.queueUnit)}
      </Cell>
      <Cell label="TTFT" number>
        {inUnit(engine.ttft_ms, columns.ttftUnit)}
      </Cell>
      <td class="act">
        {engine.available !== null && (
          <DrainButton engine={engine} name={`${engine.id} of ${pool.cluster}`} place={place} onDone={onDone} />
        )}
      </td>
    </tr>
  )
}
