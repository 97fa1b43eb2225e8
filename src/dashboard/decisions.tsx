import { Fragment } from 'preact'
import { useState, useEffect } from 'preact/hooks'
import { clock, count, ms, number } from './format.ts'
import { type History, keyOf, listed, ttftOf } from './trend.ts'
import { sentenceOf, cachedTokensOf } from './sentence.ts'
import { engineOf } from './waterfall.tsx'
import type { Decision, DecisionDetail } from './wire.ts'
import { call } from './gateway.ts'

/** All details of one decision. */
export function DecisionWhy({ id }: { readonly id: string }) {
  const [detail, setDetail] = useState<DecisionDetail | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  useEffect(() => {
    const isMissing = new AbortController()
    const load = async () => {
      try {
        const response = await call(`v1/firstlight/decisions/${encodeURIComponent(id)}`, { signal: isMissing.signal })
        setDetail((await response.json()) as DecisionDetail)
      } catch (error) {
        if (!isMissing.signal.aborted) setProblem(error instanceof Error ? error.message : String(error))
      }
    }
    void load()
    return () => isMissing.abort()
  }, [id])
  if (problem !== null)
    return (
      <p class="wrong" role="alert">
        {problem}
      </p>
    )
  if (detail === null) return <p class="dim">Asking …</p>
  return (
    <div class="detail">
      <p class="sentence">{sentenceOf(detail)}</p>
      <Facts detail={detail} />
      <Candidates detail={detail} />
      {detail.excluded.length > 0 && (
        <p>
          Not considered:{' '}
          {detail.excluded.map(({ engine, reason }) => `${engine} (${reason.replaceAll('_', ' ')})`).join(', ')}.
        </p>
      )}
    </div>
  )
}

function Facts({
  detail: { id, attempt, model, token_source, prompt_tokens, fallback, split, shadow },
}: {
  readonly detail: DecisionDetail
}) {
  return (
    <>
      <p>
        <code>{id}</code>
        {attempt > 0 && `, attempt ${attempt + 1}`} · {model} · {prompt_tokens} tokens ({token_source})
      </p>
      {fallback !== null && (
        <p class="wrong">
          The policy {fallback.from} could not be used: {fallback.reason}.
        </p>
      )}
      {split !== undefined && (
        <p>
          {split.taken ? 'Prefill on another engine' : 'Prefill not split off'}: {split.why}.
        </p>
      )}
      {shadow !== null && (
        <p>
          The shadow policy {shadow.policy} would have chosen {shadow.agrees === true ? 'the same' : shadow.engine}
          {typeof shadow.predicted_gain_ms === 'number' &&
            shadow.agrees !== true &&
            `: first token ${gain(shadow.predicted_gain_ms)}, by prediction`}
          .
        </p>
      )}
    </>
  )
}

const gain = (gainMs: number): string => (gainMs >= 0 ? `${ms(gainMs)} sooner` : `${ms(-gainMs)} later`)

/** All candidates with every term of their cost, the chosen one first. */
function Candidates({ detail: { candidates, placement } }: { readonly detail: DecisionDetail }) {
  const terms = [...new Set(candidates.flatMap((candidate) => Object.keys(candidate.terms)))]
  const takers: readonly (string | null)[] =
    placement.kind === 'whole' ? [placement.engine] : [placement.prefill, placement.decode]
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Candidates">
      <table class="candidates">
        <caption class="hidden">Candidates with the terms of their cost; lower is better</caption>
        <thead>
          <tr>
            <th scope="col">candidate</th>
            <th scope="col" class="number">
              cost
            </th>
            {terms.map((term) => (
              <th key={term} scope="col" class="number">
                {term.replaceAll('_', ' ')}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {candidates.map((candidate) => (
            <tr key={candidate.engine} class={takers.includes(candidate.engine) ? 'taken' : ''}>
              <th scope="row">
                {candidate.engine}
                {takers.includes(candidate.engine) && <span class="dim"> chosen</span>}
              </th>
              <td class="number">{number(candidate.cost)}</td>
              {terms.map((term) => (
                <td key={term} class="number">
                  {number((candidate.terms as Readonly<Record<string, number>>)[term])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

const ROWS = 20

/** The latest decisions, newest first. Each one expands to its details; while one is open, the list is frozen. */
export function Decisions({ history }: { readonly history: History }) {
  const [open, setOpen] = useState<{ readonly key: string; readonly list: readonly Decision[] } | null>(null)
  const newer = new Map([...history.latest, ...history.measured].map((decision) => [keyOf(decision), decision]))
  const rows =
    open === null ? listed(history, ROWS) : open.list.map((decision) => newer.get(keyOf(decision)) ?? decision)
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
