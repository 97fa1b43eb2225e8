import { engineOf, keyOf, stagesOf } from './decision.ts'
import { clock, durationUnit, inUnit, ms } from './format.ts'
import { type Span, spansOf, TONES } from './stage-spans.ts'
import type { Decision, View } from './wire.ts'

const ROWS = 14

interface Row {
  readonly decision: Decision
  readonly spans: readonly Span[]
  readonly totalMs: number
}

function rowsOf(decisions: readonly Decision[]): Row[] {
  const rows: Row[] = []
  for (const decision of decisions) {
    const stages = stagesOf(decision)
    if (stages?.ttft === undefined) continue
    const spans = spansOf(stages)
    rows.push({ decision, spans, totalMs: sumOf(spans) })
    if (rows.length === ROWS) break
  }
  return rows
}

/** A quantile of every stage. */
interface StageQuantile {
  readonly name: 'p50' | 'p95'
  readonly spans: readonly Span[]
  readonly ttftMs: number
}

function quantilesOf({ stages = {} }: View): StageQuantile[] {
  if (stages['ttft'] === undefined) return []
  return (['p50', 'p95'] as const).map((name) => {
    const times = Object.fromEntries(Object.entries(stages).map(([stage, of]) => [stage, of[`${name}_ms`]]))
    return { name, spans: spansOf(times), ttftMs: stages['ttft']![`${name}_ms`] }
  })
}

const sumOf = (spans: readonly Span[]): number => spans.reduce((sum, span) => sum + span.ms, 0)

interface StagesProps {
  readonly view: View
  /** With a first token, newest first. */
  readonly decisions: readonly Decision[]
}

/** Where the time to the first token goes: quantiles of 15 minutes, and the last requests. */
export function Stages({ view, decisions }: StagesProps) {
  const rows = rowsOf(decisions)
  const quantiles = quantilesOf(view)
  const maxMs = Math.max(1, ...rows.map(({ totalMs }) => totalMs))
  const all = [...rows, ...quantiles].flatMap(({ spans }) => spans)
  const tones = new Set(all.map(({ tone }) => tone))
  return (
    <section aria-labelledby="waterfall">
      <h2 id="waterfall">Time to first token, by stage</h2>
      {rows.length === 0 && quantiles.length === 0 ? (
        <p class="empty">No streamed request has had its first token yet. Send one with “stream”: true.</p>
      ) : (
        <>
          {quantiles.length > 0 && <Quantiles quantiles={quantiles} />}
          <h3>Last requests</h3>
          <ol class="waterfall">
            {rows.map((row) => (
              <Bar key={keyOf(row.decision)} row={row} maxMs={maxMs} />
            ))}
          </ol>
          <ul class="legend" aria-hidden="true">
            {TONES.filter(([tone]) => tones.has(tone)).map(([tone, name]) => (
              <li key={tone}>
                <i class={`tone-${tone}`} /> {name}
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  )
}

function Quantiles({ quantiles }: { readonly quantiles: readonly StageQuantile[] }) {
  const unit = durationUnit(quantiles.map(({ ttftMs }) => ttftMs))
  const maxMs = Math.max(1, ...quantiles.map(({ spans }) => sumOf(spans)))
  return (
    <>
      <h3>Last 15 minutes</h3>
      <ol
        class="waterfall quantiles"
        title={
          'The quantile of each stage by itself. At p95 the stages add up to more than the TTFT, because they are ' +
          'rarely slow together.'
        }
      >
        {quantiles.map(({ name, spans, ttftMs }) => (
          <li key={name} data-quantile={name}>
            <span class="who">{name} of each stage</span>
            <StageBar spans={spans} maxMs={maxMs} />
            <span class="total" title={`TTFT ${name}`}>
              TTFT {inUnit(ttftMs, unit)}
            </span>
          </li>
        ))}
      </ol>
    </>
  )
}

function StageBar({ spans, maxMs }: { readonly spans: readonly Span[]; readonly maxMs: number }) {
  const words = spans.map((span) => `${span.name} ${ms(span.ms)}`).join(', ')
  return (
    <span class="bar" role="img" aria-label={words} title={words}>
      {spans.map((span) => (
        <i key={span.name} class={`tone-${span.tone}`} style={{ width: `${(span.ms / maxMs) * 100}%` }} />
      ))}
    </span>
  )
}

function Bar({ row: { decision, spans, totalMs }, maxMs }: { readonly row: Row; readonly maxMs: number }) {
  return (
    <li>
      <span class="when">{clock(decision.at)}</span>
      <span class="who" title={engineOf(decision)}>
        {engineOf(decision)}
      </span>
      <StageBar spans={spans} maxMs={maxMs} />
      <span class="total">{inUnit(totalMs, durationUnit([maxMs]))}</span>
    </li>
  )
}
