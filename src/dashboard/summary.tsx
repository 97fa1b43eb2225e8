import type { Concern, Since } from './concerns.ts'
import { objectiveOf, type Line } from './engine-state.ts'
import { clock, count, ms, number, percent, plural, seconds } from './format.ts'
import { type Mark, rejectionReasons } from './trend.ts'
import type { Figure, History, View } from './wire.ts'

const SPAN_MS = 15 * 60_000

const share = (value: number | null): string =>
  value !== null && value > 0 && value < 0.1 ? `${number(value * 100)}%` : percent(value)

interface Tile {
  readonly figure: Figure
  readonly name: string
  readonly text: (value: number | null) => string
  readonly about: string
}

const ttftTile = (figure: Figure, name: string, about: string): Tile => ({
  figure,
  name: `TTFT ${name}`,
  text: ms,
  about: `${about} time to first token, over the last minute.`,
})

const TILES: readonly Tile[] = [
  {
    figure: 'requests_per_s',
    name: 'requests/s',
    text: number,
    about: 'Requests placed on engines per second, over the last 10 to 20 s.',
  },
  {
    figure: 'failed_share',
    name: 'failed',
    text: share,
    about:
      'Requests that ended with an error after they were accepted, as a share of those that ended in the last ' +
      'minute. A failed attempt that a retry made good does not count.',
  },
  {
    figure: 'rejected_per_s',
    name: 'rejected/s',
    text: number,
    about:
      'Requests that the gateway rejected per second, over the last 10 to 20 s: overload, no engine, limits of ' +
      'keys, authentication.',
  },
  {
    figure: 'output_tokens_per_s',
    name: 'output tokens/s',
    text: count,
    about: 'Output tokens per second, over the last 10 to 20 s, counted while they stream.',
  },
  ttftTile('ttft_p50_ms', 'p50', 'Median'),
  ttftTile('ttft_p95_ms', 'p95', '95th percentile of the'),
  ttftTile('ttft_p99_ms', 'p99', '99th percentile of the'),
  {
    figure: 'queue_s',
    name: 'longest queue',
    text: seconds,
    about: 'Longest queue of uncomputed prompts at an engine in the last 10 to 20 s, as time to compute them.',
  },
  {
    figure: 'kv_usage',
    name: 'highest KV use',
    text: percent,
    about: 'KV cache in use at the fullest engine, as it reports.',
  },
]

interface SummaryProps {
  readonly lines: readonly Line[]
  readonly view: View
  readonly marks: readonly Mark[]
}

/** The first row: is the fleet well. Each figure with its last 15 minutes, which the gateway keeps. */
export function Summary({ lines, view, marks }: SummaryProps) {
  const reasons = rejectionReasons(marks)
  return (
    <dl class="tiles">
      <EnginesUp lines={lines} />
      {TILES.map((tile) => (
        <FigureTile
          key={tile.figure}
          tile={
            tile.figure === 'rejected_per_s' && reasons.length > 0
              ? { ...tile, about: `${tile.about} Now: ${reasons.join(', ')}.` }
              : tile
          }
          view={view}
        />
      ))}
    </dl>
  )
}

function EnginesUp({ lines }: Pick<SummaryProps, 'lines'>) {
  const up = lines.filter(({ state }) => state === 'up').length
  const running = lines.reduce((sum, { engine }) => sum + (engine.requests ?? 0), 0)
  return (
    <div class="tile" title="Engines that may get requests now: healthy, not draining, and not full.">
      <dt>engines up</dt>
      <dd class={up === lines.length ? 'good' : up === 0 ? 'bad' : 'warn'}>
        {count(up)} of {count(lines.length)}
      </dd>
      <dd class="under dim">{plural(running, 'request')} running</dd>
    </div>
  )
}

function FigureTile({ tile, view }: { readonly tile: Tile; readonly view: View }) {
  const { figure, name, text, about } = tile
  const value = view.now?.[figure] ?? null
  const objective = figure.startsWith('ttft') ? objectiveOf(view.pools) : null
  const within = figure === 'ttft_p95_ms' ? (view.now?.within_slo_share ?? null) : null
  const isBad = (figure === 'failed_share' && (value ?? 0) > 0) || (objective !== null && (value ?? 0) > objective)
  return (
    <div class="tile" title={objective === null ? about : `${about} Objective: ${ms(objective)}.`} data-figure={figure}>
      <dt>
        {name}
        {within !== null && (
          <span class={within < 0.95 ? 'bad' : 'good'} title="First tokens of the last minute within their objective.">
            {' '}
            · {share(within)} within slo
          </span>
        )}
      </dt>
      <dd class={isBad ? 'bad' : ''}>{text(value)}</dd>
      <Past history={view.history} figure={figure} text={text} objective={objective} />
    </div>
  )
}

const WIDTH = 120
const HEIGHT = 26

interface PastProps {
  readonly history: History | undefined
  readonly figure: Figure
  readonly text: (value: number) => string
  readonly objective: number | null
}

/** Line of the last 15 minutes. The axis starts at zero; unknown values leave a gap. */
function Past({ history, figure, text, objective }: PastProps) {
  const values = history?.[figure] ?? []
  const known = values.filter((value) => value !== null)
  if (history === undefined || known.length === 0) return <dd class="under dim">no values yet</dd>
  const highest = known.reduce((most, value) => Math.max(most, value), 0)
  // An objective far above the values would flatten them.
  const shown = objective !== null && objective <= 3 * highest ? objective : null
  const top = Math.max(highest, shown ?? 0)
  const yOf = (value: number) => HEIGHT - 2 - (top === 0 ? 0 : (value / top) * (HEIGHT - 4))
  const stepWidth = (history.step_ms / SPAN_MS) * WIDTH
  const path = values
    .map((value, index) => {
      if (value === null) return ''
      const x = WIDTH - (values.length - index) * stepWidth
      // A step is a horizontal line, so that a single one is visible.
      return `${index === 0 || values[index - 1] === null ? 'M' : 'L'}${x.toFixed(1)} ${yOf(value).toFixed(1)}h${stepWidth.toFixed(2)}`
    })
    .join('')
  const from = history.from + values.findIndex((value) => value !== null) * history.step_ms
  return (
    <dd class="under">
      <svg
        class="past"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`since ${clock(from)}: at most ${text(highest)}`}
      >
        {shown !== null && <path class="objective" d={`M0 ${yOf(shown).toFixed(1)}H${WIDTH}`} />}
        <path d={path} />
      </svg>
      <span class="dim">
        max {text(highest)} in 15 min
        {objective !== null && ` · slo ${ms(objective)}`}
      </span>
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
