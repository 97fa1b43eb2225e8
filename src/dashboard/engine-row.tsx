import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { type Line, roleOf } from './engine-state.ts'
import { count, ms, percent, seconds } from './format.ts'
import { call } from './gateway.ts'
import { Sparkline } from './sparkline.tsx'

export function EngineRow({ line }: { readonly line: Line }) {
  const { engine, pool, state, text } = line
  const silent = engine.learned?.silent_miss ?? null
  return (
    <tr data-engine={engine.id}>
      <th scope="row">
        <span class="name">{engine.id}</span>
      </th>
      <Cell label="cluster">
        <span class="name short">
          {pool.cluster} <span class="dim model">{pool.model}</span>
        </span>
      </Cell>
      <Cell label="role">{roleOf(line)}</Cell>
      <Cell label="state">
        <span class={`state ${state}`}>{text}</span>
      </Cell>
      <Cell label="running" number>
        {count(engine.requests)}
      </Cell>
      <Cell label="active blocks" number>
        {count(engine.active_blocks)}
      </Cell>
      <Cell label="prefill queue" number>
        {seconds(engine.queued_prefill_s)}
      </Cell>
      <Cell label="hit rate" number>
        {percent(engine.hit_rate)}
        {silent !== null && (
          <abbr
            class="wrong"
            title={`Cache hits are predicted but never reported. Likely causes: ${silent.join('; ')}`}
          >
            {' '}
            !
          </abbr>
        )}
      </Cell>
      <Cell label="TTFT" number>
        {ms(engine.ttft_ms)}
      </Cell>
      <Cell label="off by" number>
        {percent(engine.learned?.ttft_error)}
      </Cell>
      <Cell label="requests" number>
        {count(engine.requests_total)}
      </Cell>
      <Cell label="failures" number>
        {count(engine.failures_total)}
      </Cell>
      <Cell label="last TTFTs">
        <Sparkline values={engine.recent_ttft_ms ?? []} />
      </Cell>
      <td class="act">{engine.available !== null && <DrainButton line={line} />}</td>
    </tr>
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
