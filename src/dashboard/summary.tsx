import type { Concern, Since } from './concerns.ts'
import type { Line } from './engine-state.ts'
import { clock, count, ms, number, percent, plural, seconds } from './format.ts'
import { rejectionReasons, SPAN_MS, type Point, type Trend } from './trend.ts'

interface SummaryProps {
  readonly lines: readonly Line[]
  readonly trend: Trend
}

type Figure = keyof Omit<Point, 'at'>

const share = (value: number | null): string =>
  value !== null && value > 0 && value < 0.1 ? `${number(value * 100)}%` : percent(value)

const TILES: readonly (readonly [
  figure: Figure,
  name: string,
  text: (value: number | null) => string,
  about: string,
])[] = [
  [
    'requestsPerS',
    'requests/s',
    (value) => number(value),
    'Requests placed on engines per second, over the last 10 s.',
  ],
  ['failureShare', 'failed attempts', share, 'Attempts that an engine failed, over the last 10 s.'],
  [
    'rejectedPerS',
    'rejected/s',
    (value) => number(value),
    'Requests that the gateway rejected per second, over the last 10 s: overload, limits of keys, authentication.',
  ],
  [
    'outputTokensPerS',
    'output tokens/s',
    (value) => number(value),
    'Output tokens per second, over the last 10 s. A stream counts when it ends.',
  ],
  ['ttftP50Ms', 'TTFT p50', ms, 'Median time to first token, over the last 40 first tokens of each engine.'],
  ['ttftP95Ms', 'TTFT p95', ms, '95th percentile, over the last 40 first tokens of each engine.'],
  ['ttftP99Ms', 'TTFT p99', ms, '99th percentile, over the last 40 first tokens of each engine.'],
  ['queueS', 'longest queue', seconds, 'Longest queue of uncomputed prompts at an engine, as time to compute them.'],
  ['kvUsage', 'highest KV use', percent, 'KV cache in use at the fullest engine, as it reports.'],
]

/** The first row: is the fleet well. Each figure with its last 15 minutes, as far as this page was open. */
export function Summary({ lines, trend }: SummaryProps) {
  const { points } = trend
  const reasons = rejectionReasons(trend)
  const up = lines.filter(({ state }) => state === 'up').length
  const running = lines.flatMap(({ engine }) => engine.requests ?? [])
  const now = points.at(-1)
  return (
    <dl class="tiles">
      <div class="tile">
        <dt>engines up</dt>
        <dd class={up === lines.length ? 'good' : up === 0 ? 'bad' : 'warn'}>
          {count(up)} of {count(lines.length)}
        </dd>
        <dd class="under dim">
          {plural(
            running.reduce((sum, one) => sum + one, 0),
            'request',
          )}{' '}
          running
        </dd>
      </div>
      {TILES.map(([figure, name, text, about]) => (
        <div
          class="tile"
          key={figure}
          title={figure === 'rejectedPerS' && reasons.length > 0 ? `${about} Now: ${reasons.join(', ')}.` : about}
          data-figure={figure}
        >
          <dt>{name}</dt>
          <dd class={figure === 'failureShare' && (now?.failureShare ?? 0) > 0 ? 'bad' : ''}>
            {text(now?.[figure] ?? null)}
          </dd>
          <Past points={points} figure={figure} text={text} />
        </div>
      ))}
    </dl>
  )
}

const WIDTH = 120
const HEIGHT = 26

interface PastProps {
  readonly points: readonly Point[]
  readonly figure: Figure
  readonly text: (value: number) => string
}

/** Line of the last 15 minutes. The axis starts at zero; unknown values leave a gap. */
function Past({ points, figure, text }: PastProps) {
  const known = points.flatMap(({ at, [figure]: value }) => (value === null ? [] : [{ at, value }]))
  if (known.length < 2) return <dd class="under dim">collecting</dd>
  const end = points.at(-1)!.at
  const most = known.reduce((highest, { value }) => Math.max(highest, value), 0)
  const path = points
    .map(({ at, [figure]: value }, index) => {
      if (value === null) return ''
      const x = WIDTH - ((end - at) / SPAN_MS) * WIDTH
      const y = HEIGHT - 2 - (most === 0 ? 0 : (value / most) * (HEIGHT - 4))
      const isFirst = index === 0 || points[index - 1]![figure] === null
      return `${isFirst ? 'M' : 'L'}${x.toFixed(1)} ${y.toFixed(1)}`
    })
    .join('')
  return (
    <dd class="under">
      <svg
        class="past"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`since ${clock(known[0]!.at)}: at most ${text(most)}`}
      >
        <path d={path} />
      </svg>
    </dd>
  )
}

/** Problems with reason, start and next step. Empty: one line that states it. */
export function Attention({ concerns, since }: { readonly concerns: readonly Concern[]; readonly since: Since }) {
  return (
    <section aria-labelledby="attention">
      <h2 id="attention">Needs attention</h2>
      {concerns.length === 0 ? (
        <p class="good">Nothing. All engines answer, and all metrics are current.</p>
      ) : (
        <ul class="concerns">
          {concerns.map(({ key, tone, subject, reason, next, href }) => {
            const start = since.get(key)
            return (
              <li key={key} class={tone}>
                {href === null ? <b>{subject}</b> : <a href={href}>{subject}</a>}: {reason}.{' '}
                <span class="dim">
                  {start !== undefined && `Since ${start.isAtLeast ? 'before ' : ''}${clock(start.at)}. `}
                  {next}
                </span>
              </li>
            )
          })}
        </ul>
      )}
    </section>
  )
}
