import type { ComponentChildren } from 'preact'
import { Chart } from './chart.tsx'
import { cachedTokensOf } from './decision.ts'
import { count, percent, plural, quantile } from './format.ts'
import type { Decision, View } from './wire.ts'

interface Pair {
  readonly at: number
  readonly predicted: number
  readonly actual: number
}

/** Decisions with both values, oldest first. */
function pairsOf(decisions: readonly Decision[]): Pair[] {
  const pairs: Pair[] = []
  for (const decision of decisions.toReversed()) {
    const [predicted, actual] = [decision.predicted_cached_tokens, cachedTokensOf(decision)]
    if (predicted !== null && actual !== null) pairs.push({ at: decision.at / 1000, predicted, actual })
  }
  return pairs
}

interface PredictionProps {
  /** Absent: an older gateway. */
  readonly errors: View['ttft_errors']
  /** With a first token, newest first. */
  readonly decisions: readonly Decision[]
}

/** Error of the predictions that routed requests. */
export function Prediction({ errors, decisions }: PredictionProps) {
  const tokens = pairsOf(decisions)
  const missed = tokens.map(({ predicted, actual }) => Math.abs(actual - predicted))
  return (
    <section aria-labelledby="prediction">
      <h2 id="prediction">Prediction</h2>
      <div class="charts">
        <ErrorHistogram errors={errors} />
        <Figure
          title="Cached tokens"
          pairs={tokens}
          format={count}
          empty={
            <>
              No engine has reported cached tokens. vLLM reports them with <code>--enable-prompt-tokens-details</code>;
              decode engines of split requests do not report them.
            </>
          }
          text={
            `error ${count(quantile(missed, 0.5))} tokens median (${count(quantile(missed, 0.9))} at p90), ` +
            `${plural(tokens.length, 'request')}`
          }
        />
      </div>
    </section>
  )
}

/** Range of predicted / actual in words. */
function rangeOf(limits: readonly number[], at: number): string {
  const [from, to] = [limits[at - 1], limits[at]]
  if (from === undefined) return `below ${to}×`
  return to === undefined ? `above ${from}×` : `${from} to ${to}×`
}

/** Predicted TTFT relative to the actual one, over 15 minutes. The middle is right within 10%. */
function ErrorHistogram({ errors }: Pick<PredictionProps, 'errors'>) {
  const { limits, counts } = errors ?? { limits: [], counts: [] }
  const total = counts.reduce((sum, one) => sum + one, 0)
  if (total === 0)
    return (
      <figure>
        <h3>TTFT</h3>
        <p class="empty">No request with a predicted and a measured TTFT yet. Streamed requests have both.</p>
      </figure>
    )
  const max = Math.max(...counts)
  const middle = limits.findIndex((limit) => limit > 1)
  const part = (from: number, to: number) => counts.slice(from, to).reduce((sum, one) => sum + one, 0) / total
  return (
    <figure data-chart="ttft-errors">
      <h3>TTFT: predicted / actual</h3>
      <ol class="histogram">
        {counts.map((one, at) => {
          const words = `${rangeOf(limits, at)}: ${plural(one, 'request')} (${percent(one / total)})`
          return (
            <li key={at} title={words}>
              <span class="share dim">{one === 0 ? '' : percent(one / total)}</span>
              <i
                role="img"
                aria-label={words}
                class={at === middle ? 'right' : at < middle ? 'under' : 'over'}
                style={{ height: `${(one / max) * 100}%` }}
              />
              <span class="range dim">
                {at === middle ? '±10%' : at < middle ? `≤${limits[at]}` : `>${limits[at - 1]}`}
              </span>
            </li>
          )
        })}
      </ol>
      <figcaption>
        {percent(part(middle, middle + 1))} within 10%, {percent(part(0, middle))} too low,{' '}
        {percent(part(middle + 1, counts.length))} too high; {plural(total, 'request')} in 15 minutes
      </figcaption>
    </figure>
  )
}

interface FigureProps {
  readonly title: string
  readonly pairs: readonly Pair[]
  readonly format: (value: number) => string
  readonly empty: ComponentChildren
  readonly text: string
}

function Figure({ title, pairs, format, empty, text }: FigureProps) {
  if (pairs.length === 0) {
    return (
      <figure>
        <h3>{title}</h3>
        <p class="empty">{empty}</p>
      </figure>
    )
  }
  return (
    <figure>
      <h3>
        {title}
        <span class="legend">
          <span>
            <i class="actual" /> actual
          </span>
          <span>
            <i class="predicted" /> predicted
          </span>
        </span>
      </h3>
      <Chart
        x={pairs.map(({ at }) => at)}
        actual={pairs.map(({ actual }) => actual)}
        predicted={pairs.map(({ predicted }) => predicted)}
        format={format}
      />
      <figcaption>{text}</figcaption>
    </figure>
  )
}
