import { clock, ms } from './format.ts'
import { keyOf, stagesOf } from './history.ts'
import { type Span, spansOf, TONES } from './stages.ts'
import type { Decision } from './wire.ts'

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
