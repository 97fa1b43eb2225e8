import { clock, ms } from './format.ts'
import { keyOf, stagesOf } from './trend.ts'
import type { Decision, Stage, Wire } from './wire.ts'
import type { StageTimes } from '../core/contract/contract.ts'

export interface Span {
  readonly name: string
  readonly tone: string
  readonly ms: number
}

/** Stages in order. They are consecutive and do not overlap. */
const STEPS: readonly (readonly [stage: Stage, name: string, tone: string])[] = [
  ['edge', 'reading', 'a'],
  ['tokens', 'tokens', 'b'],
  ['lookup', 'cache lookup', 'c'],
  ['route', 'cluster choice', 'c'],
  ['admit', 'engine choice', 'd'],
  ['encode', 'encode leg', 'e'],
  ['prefill_leg', 'prefill leg', 'f'],
  ['transfer', 'transfer', 'c'],
  ['connect', 'to response headers', 'g'],
]

export const TONES: readonly (readonly [tone: string, name: string])[] = [
  ['a', 'reading'],
  ['b', 'tokens'],
  ['c', 'lookup, cluster, transfer'],
  ['d', 'engine choice'],
  ['e', 'encode leg'],
  ['f', 'prefill leg'],
  ['g', 'response headers'],
  ['h', 'engine queue'],
  ['i', 'engine: to first token'],
  ['z', 'the rest'],
]

/** Converts the stages to spans that add up to the TTFT. */
export function spansOf(stages: Wire<StageTimes>): Span[] {
  const spans: Span[] = STEPS.flatMap(([stage, name, tone]) => {
    const durationMs = stages[stage] ?? 0
    return durationMs > 0 ? [{ name, tone, ms: durationMs }] : []
  })
  // `first_byte` counts from the dispatch and includes the response head.
  const engineMs = Math.max(0, (stages.first_byte ?? 0) - (stages.connect ?? 0))
  const queueMs = Math.min(engineMs, stages.queue ?? 0)
  if (queueMs > 0) spans.push({ name: 'engine queue', tone: 'h', ms: queueMs })
  if (engineMs > queueMs) spans.push({ name: 'engine, to first token', tone: 'i', ms: engineMs - queueMs })
  const rest = (stages.ttft ?? 0) - spans.reduce((sum, span) => sum + span.ms, 0)
  if (rest > 0.5) spans.push({ name: 'the rest', tone: 'z', ms: rest })
  return spans
}

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
    rows.push({ decision, spans, totalMs: spans.reduce((sum, span) => sum + span.ms, 0) })
    if (rows.length === ROWS) break
  }
  return rows
}

/** Where the first token's time went, for the last requests that had one; all on one scale. */
export function Waterfall({ decisions }: { readonly decisions: readonly Decision[] }) {
  const rows = rowsOf(decisions)
  const most = Math.max(1, ...rows.map(({ totalMs }) => totalMs))
  const tones = new Set(rows.flatMap(({ spans }) => spans.map(({ tone }) => tone)))
  return (
    <section aria-labelledby="waterfall">
      <h2 id="waterfall">Time to first token, by stage</h2>
      {rows.length === 0 ? (
        <p class="empty">
          No streamed request has had its first token yet. Send one with “stream”: true and it shows up here.
        </p>
      ) : (
        <>
          <ol class="waterfall">
            {rows.map((row) => (
              <Bar key={keyOf(row.decision)} row={row} most={most} />
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

function Bar({ row: { decision, spans, totalMs }, most }: { readonly row: Row; readonly most: number }) {
  const words = spans.map((span) => `${span.name} ${ms(span.ms)}`).join(', ')
  return (
    <li>
      <span class="when">{clock(decision.at)}</span>
      <span class="who" title={engineOf(decision)}>
        {engineOf(decision)}
      </span>
      <span class="bar" role="img" aria-label={words} title={words}>
        {spans.map((span) => (
          <i key={span.name} class={`tone-${span.tone}`} style={{ width: `${(span.ms / most) * 100}%` }} />
        ))}
      </span>
      <span class="total">{ms(totalMs)}</span>
    </li>
  )
}

/** Name of the engine that answers. */
export function engineOf({ placement }: Decision): string {
  if (placement.kind === 'whole') return placement.engine
  return placement.prefill === null ? placement.decode : `${placement.prefill} → ${placement.decode}`
}
