import { Fragment } from 'preact'
import { useState } from 'preact/hooks'
import { type DecisionHistory, decisionsToList } from './decision-history.ts'
import { DecisionRow } from './decision-row.tsx'
import { DecisionSearch } from './decision-search.tsx'
import { DecisionWhy } from './decision-why.tsx'
import { keyOf } from './decision.ts'
import type { Decision } from './wire.ts'

const ROWS = 20

/** The latest decisions, newest first. Each one expands to its details; while one is open, the list is frozen. */
export function Decisions({ history }: { readonly history: DecisionHistory }) {
  const [open, setOpen] = useState<{ readonly key: string; readonly list: readonly Decision[] } | null>(null)
  const newer = new Map([...history.latest, ...history.measured].map((decision) => [keyOf(decision), decision]))
  const rows =
    open === null ? decisionsToList(history, ROWS) : open.list.map((decision) => newer.get(keyOf(decision)) ?? decision)
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

function DecisionHeads() {
  return (
    <thead>
      <tr>
        <th scope="col">time</th>
        <th scope="col">engine</th>
        <th scope="col">policy</th>
        <th scope="col" class="number">
          prompt
        </th>
        <th scope="col" class="number">
          cached: predicted / actual
        </th>
        <th scope="col" class="number">
          TTFT: predicted / actual
        </th>
        <th scope="col">result</th>
        <th scope="col">
          <span class="hidden">why</span>
        </th>
      </tr>
    </thead>
  )
}
