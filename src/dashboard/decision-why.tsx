import { useEffect, useState } from 'preact/hooks'
import { DecisionCandidates } from './decision-candidates.tsx'
import { errorText } from './error-text.ts'
import { ms } from './format.ts'
import { call } from './gateway.ts'
import { sentenceOf } from './sentence.ts'
import type { DecisionDetail } from './wire.ts'

/** All details of one decision. */
export function DecisionWhy({ id }: { readonly id: string }) {
  const [detail, setDetail] = useState<DecisionDetail | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  useEffect(() => {
    const unmounted = new AbortController()
    const load = async () => {
      try {
        const response = await call(`v1/firstlight/decisions/${encodeURIComponent(id)}`, { signal: unmounted.signal })
        setDetail((await response.json()) as DecisionDetail)
      } catch (error) {
        if (!unmounted.signal.aborted) setProblem(errorText(error))
      }
    }
    void load()
    return () => unmounted.abort()
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
      <DecisionCandidates detail={detail} />
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
  detail: { id, attempt, model, session, token_source, prompt_tokens, fallback, split, shadow },
}: {
  readonly detail: DecisionDetail
}) {
  return (
    <>
      <p>
        <code>{id}</code>
        {attempt > 0 && `, attempt ${attempt + 1}`} · {model} · {prompt_tokens} tokens ({token_source})
        {session !== undefined && ` · session ${session}`}
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
