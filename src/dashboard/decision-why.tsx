import { useEffect, useState } from 'preact/hooks'
import { ms, number } from './format.ts'
import { call } from './gateway.ts'
import { sentenceOf } from './sentence.ts'
import type { DecisionDetail } from './wire.ts'

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
            `: predicted first token ${gain(shadow.predicted_gain_ms)}`}
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
