import { Fragment, type ComponentChildren } from 'preact'
import type { Concern, Since, Tone, Verdict as Judged } from './concerns.ts'
import { objectiveOf, type Line } from './engine-state.ts'
import { clock, count, ms, number, percent, plural, seconds } from './format.ts'
import { type Mark, rejectionReasons } from './trend.ts'
import type { Figure, View, History } from './wire.ts'

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
    figure: 'output_tokens_per_s',
    name: 'output tokens/s',
    text: count,
    about: 'Output tokens per second, over the last 10 to 20 s, counted while they stream.',
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
      <WaitingRequests view={view} />
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
  const tones = (['good', 'warn', 'bad'] as const).map(
    (tone) => [tone, lines.filter(({ state }) => toneOf(state) === tone).length] as const,
  )
  return (
    <div class="tile" title="Engines that may get requests now: healthy, not draining, and not full.">
      <dt>engines up</dt>
      <dd class={up === lines.length ? 'good' : up === 0 ? 'bad' : 'warn'}>
        {count(up)} of {count(lines.length)}
      </dd>
      <dd class="under">
        <span class="states" aria-hidden="true">
          {tones.map(([tone, engines]) => engines > 0 && <i key={tone} class={tone} style={{ flexGrow: engines }} />)}
        </span>
        <span class="dim">{plural(running, 'request')} running</span>
      </dd>
    </div>
  )
}

const toneOf = (state: Line['state']): Tone =>
  state === 'up' ? 'good' : state === 'unhealthy' || state === 'circuit' ? 'bad' : 'warn'

/** Only where a pool has a queue. */
function WaitingRequests({ view }: Pick<SummaryProps, 'view'>) {
  const queues = view.pools.flatMap(({ queue }) => queue ?? [])
  if (queues.length === 0) return null
  const requests = queues.reduce((sum, queue) => sum + queue.requests, 0)
  const oldestMs = Math.max(...queues.map(({ oldest_ms }) => oldest_ms))
  return (
    <div class="tile" title="Requests that wait for room in the queues of the pools.">
      <dt>waiting for room</dt>
      <dd class={requests > 0 ? 'warn' : ''}>{count(requests)}</dd>
      <dd class="under dim">{requests === 0 ? 'none' : `oldest ${ms(oldestMs)}`}</dd>
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
      <dt>{name}</dt>
      <dd class={isBad ? 'bad' : ''}>{text(value)}</dd>
      <Past history={view.history} figure={figure} text={text} objective={objective} />
      {within !== null && (
        <dd class="under" title="First tokens of the last minute within their objective.">
          <span class={within < 0.95 ? 'bad' : 'good'}>{share(within)} within slo</span>
        </dd>
      )}
    </div>
  )
}

interface VerdictProps {
  readonly verdict: Judged
  readonly concerns: readonly Concern[]
}

const NAMED = 3

/** The answer to "is the fleet well, and if not, where do I look". */
export function Verdict({ verdict: { tone, headline, more, help }, concerns }: VerdictProps) {
  const named = concerns.slice(0, NAMED)
  return (
    <p class="verdict" id="verdict">
      <b class={tone}>{headline}</b>
      {help !== null && <RunbookLink help={help} />}
      {named.length > 0 && (
        <span>
          {named.map(({ key, subject, href }, at) => (
            <Fragment key={key}>
              {at > 0 && ', '}
              <a href={href ?? '#attention'}>{subject}</a>
            </Fragment>
          ))}
          {concerns.length > NAMED && (
            <>
              {' '}
              and <a href="#attention">{concerns.length - NAMED} more</a>
            </>
          )}
        </span>
      )}
      {more.length > 0 && <span class="dim">{more.join(' · ')}</span>}
    </p>
  )
}

function RunbookLink({ help }: { readonly help: string }) {
  return (
    <a class="runbook" href={`runbook#${help}`} target="_blank">
      Runbook
    </a>
  )
}

/** Problems with reason, start, next step and the page that helps. */
export function Attention({ concerns, since }: { readonly concerns: readonly Concern[]; readonly since: Since }) {
  if (concerns.length === 0) return null
  return (
    <section aria-labelledby="attention">
      <h2 id="attention">Needs attention</h2>
      <ul class="concerns">
        {concerns.map(({ key, tone, subject, reason, next, href, help }) => {
          const start = since.get(key)
          return (
            <li key={key} class={tone}>
              {href === null ? <b>{subject}</b> : <a href={href}>{subject}</a>}: {reason}.{' '}
              <span class="dim">
                {start !== undefined && `Since ${start.isAtLeast ? 'before ' : ''}${clock(start.at)}. `}
                {next} <RunbookLink help={help} />
              </span>
            </li>
          )
        })}
      </ul>
    </section>
  )
}

/* Charts of the last 15 minutes under the tiles. */

const SPAN_MS = 15 * 60_000
const WIDTH = 120
const HEIGHT = 26
const BASE = HEIGHT - 2
const TOP = 2

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
  const highest = known.reduce((most, value) => Math.max(most, value), 0)
  // An objective far above the values would flatten them.
  const shown = objective !== null && objective <= 3 * highest ? objective : null
  const top = Math.max(highest, shown ?? 0)
  const yOf = (value: number) => (BASE - (top === 0 ? 0 : (value / top) * (BASE - TOP))).toFixed(1)
  const limit = objective === null ? ' · 15 min' : ` · slo ${ms(objective)}`
  if (history === undefined || known.length === 0)
    return (
      <dd class="under">
        <Chart label="no values yet" />
        <span class="dim">no values yet</span>
      </dd>
    )
  const from = history.from + values.findIndex((value) => value !== null) * history.step_ms
  return (
    <dd class="under">
      <Chart label={`since ${clock(from)}: at most ${text(highest)}`}>
        {(top === 0 ? [] : partsOf(values, history.step_ms)).map(({ x, steps, width }) => {
          const line = steps.map((value) => `V${yOf(value)}h${width}`).join('')
          return (
            <Fragment key={x}>
              <path class="area" d={`M${x} ${BASE}${line}V${BASE}Z`} />
              <path d={`M${x} ${yOf(steps[0]!)}${line}`} />
            </Fragment>
          )
        })}
        {shown !== null && <path class="objective" d={`M0 ${yOf(shown)}H${WIDTH}`} />}
      </Chart>
      <span class="dim">
        {highest === 0 ? 'none' : `max ${text(highest)}`}
        {limit}
      </span>
    </dd>
  )
}

function Chart({ label, children }: { readonly label: string; readonly children?: ComponentChildren }) {
  return (
    <svg class="past" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path class="axis" d={`M0 ${BASE}H${WIDTH}`} />
      {children}
    </svg>
  )
}

interface Part {
  /** Start on the time axis. */
  readonly x: string
  readonly steps: readonly number[]
  /** Of each step. */
  readonly width: string
}

/** Divides the values at those that are unknown. The last step ends at the right edge. */
function partsOf(values: readonly (number | null)[], stepMs: number): Part[] {
  const width = (stepMs / SPAN_MS) * WIDTH
  const parts: { readonly x: string; readonly steps: number[]; readonly width: string }[] = []
  for (const [index, value] of values.entries()) {
    if (value === null) continue
    if (index === 0 || values[index - 1] === null)
      parts.push({ x: (WIDTH - (values.length - index) * width).toFixed(1), steps: [], width: width.toFixed(2) })
    parts.at(-1)!.steps.push(value)
  }
  return parts
}
