import { Fragment } from 'preact'
import { useState } from 'preact/hooks'
import { DecisionWhy } from './decision-why.tsx'
import { cachedTokensOf, engineOf, keyOf, ttftOf } from './decision.ts'
import { clock, count, ms } from './format.ts'
import { type DecisionHistory, decisionsToList } from './decision-history.ts'
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
      <Search />
      {rows.length === 0 ? (
        <p class="empty">No request has been placed yet. Send one to /v1/chat/completions.</p>
      ) : (
        <table class="lines decisions">
          <caption class="hidden">Recent decisions, newest first</caption>
          <DecisionHeads />
          <tbody>
            {rows.map((decision) => (
              <Fragment key={keyOf(decision)}>
                <Row
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

/** Finds the decision of a request by its id, also if newer ones have replaced it in the list. */
function Search() {
  const [text, setText] = useState('')
  const [found, setFound] = useState<string | null>(null)
  return (
    <>
      <form
        class="filter search"
        role="search"
        onSubmit={(event) => {
          event.preventDefault()
          setFound(text.trim() === '' ? null : text.trim())
        }}
      >
        <input
          type="search"
          placeholder="request id (x-request-id)"
          aria-label="Find a request by its id"
          spellcheck={false}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <button type="submit">Find</button>
      </form>
      {found !== null && (
        <div class="found">
          <DecisionWhy key={found} id={found} />
          <button type="button" class="small" onClick={() => setFound(null)}>
            close
          </button>
        </div>
      )}
    </>
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

interface RowProps {
  readonly decision: Decision
  readonly isOpen: boolean
  readonly onToggle: () => void
}

function Row({ decision, isOpen, onToggle }: RowProps) {
  const { actual } = decision
  return (
    <tr data-decision={decision.id}>
      <td data-label="time">{clock(decision.at)}</td>
      <td data-label="engine">
        {engineOf(decision)}
        {decision.attempt > 0 && <span class="dim"> attempt {decision.attempt + 1}</span>}
      </td>
      <td data-label="policy">
        {decision.policy}
        {decision.fallback !== null && <span class="wrong"> for {decision.fallback.from}</span>}
      </td>
      <td data-label="prompt" class="number">
        {count(decision.prompt_tokens)}
      </td>
      <td data-label="cached, predicted / actual" class="number">
        {count(decision.predicted_cached_tokens)} / {count(cachedTokensOf(decision))}
      </td>
      <td data-label="TTFT, predicted / actual" class="number">
        {ms(decision.predicted_ttft_ms)} / {ms(ttftOf(decision))}
      </td>
      <td data-label="result">
        {actual === null ? (
          <span class="dim">{decision.first_token === undefined ? 'waiting' : 'streaming'}</span>
        ) : (
          <span class={actual.result === 'complete' ? '' : 'wrong'}>{actual.result.replaceAll('_', ' ')}</span>
        )}
      </td>
      <td class="act">
        <button
          type="button"
          class="small"
          aria-expanded={isOpen}
          aria-controls={`why-${keyOf(decision)}`}
          aria-label={`why ${engineOf(decision)} at ${clock(decision.at)}`}
          onClick={onToggle}
        >
          {isOpen ? 'close' : 'why'}
        </button>
      </td>
    </tr>
  )
}
