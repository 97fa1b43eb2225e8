import { Fragment } from 'preact'
import { useState } from 'preact/hooks'
import { type DecisionHistory, decisionsToList } from './decision-history.ts'
import { DecisionRow } from './decision-row.tsx'
import { DecisionSearch } from './decision-search.tsx'
import { DecisionWhy } from './decision-why.tsx'
import { keyOf, ttftOf } from './decision.ts'
import { durationUnit } from './format.ts'
import type { Decision } from './wire.ts'

const ROWS = 20

/** The latest decisions, newest first. Each one expands to its details; while one is open, the list is frozen. */
export function Decisions({ history }: { readonly history: DecisionHistory }) {
  const [open, setOpen] = useState<{ readonly key: string; readonly list: readonly Decision[] } | null>(null)
  const newer = new Map([...history.latest, ...history.measured].map((decision) => [keyOf(decision), decision]))
  const rows =
    open === null ? decisionsToList(history, ROWS) : open.list.map((decision) => newer.get(keyOf(decision)) ?? decision)
  const unit = durationUnit(rows.flatMap((decision) => [decision.predicted_ttft_ms, ttftOf(decision)]))
  const toggle = (key: string) => setOpen(open?.key === key ? null : { key, list: rows })
  return (
    <section aria-labelledby="decisions">
      <div class="head">
        <h2 id="decisions">Recent decisions</h2>
        {open !== null && <span class="dim">paused while one is open</span>}
      </div>
      <DecisionSearch />
      {rows.length === 0 ? (
        <p class="empty">No request has been placed yet. Send one to /v1/chat/completions.</p>
      ) : (
        <table class="lines decisions">
          <caption class="hidden">Recent decisions, newest first</caption>
          <DecisionHeads />
          <tbody>
            {rows.map((decision) => (
              <Fragment key={keyOf(decision)}>
                <DecisionRow
                  decision={decision}
                  unit={unit}
                  isOpen={open?.key === keyOf(decision)}
                  onToggle={() => toggle(keyOf(decision))}
                />
                {open?.key === keyOf(decision) && (
                  <tr class="why" id={`why-${keyOf(decision)}`}>
                    <td colSpan={8}>
                      <DecisionWhy id={decision.id} />
                    </td>
                  </tr>
                )}
              </Fragment>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

const HEADS: readonly (readonly [title: string, isNumber: boolean, about: string])[] = [
  ['time', false, 'When the request was placed.'],
  ['engine', false, 'Engine that answers; of a split request, prefill → decode.'],
  ['policy', false, 'Routing policy that chose it.'],
  ['prompt', true, 'Prompt tokens.'],
  ['cached: predicted / actual', true, 'Prompt tokens cached at the engine: predicted, and as it reported.'],
  ['TTFT: predicted / actual', true, 'Time to the first token: predicted, and measured by the gateway.'],
  ['result', false, 'How the attempt ended.'],
]

function DecisionHeads() {
  return (
    <thead>
      <tr>
        {HEADS.map(([title, isNumber, about]) => (
          <th key={title} scope="col" class={isNumber ? 'number' : ''} title={about}>
            {title}
          </th>
        ))}
        <th scope="col">
          <span class="hidden">why</span>
        </th>
      </tr>
    </thead>
  )
}
