import { type EngineLine, isEdge, objectiveOf } from './engine-state.ts'
import { FigureHistory } from './figure-history.tsx'
import { count, durationUnit, inUnit, ms, number, percent, plural } from './format.ts'
import { isHighRejection, rejectionReasons, type TrafficSample } from './rejections.ts'
import type { Tone } from './verdict.ts'
import type { Figure, View } from './wire.ts'

type Text = (value: number | null) => string

const share: Text = (value) => (value !== null && value > 0 && value < 0.1 ? `${number(value * 100)}%` : percent(value))

interface Tile {
  readonly figure: Figure
  readonly name: string
  /** Text of a value beside these. */
  readonly textFor: (values: readonly (number | null)[]) => Text
  readonly about: string
}

const times = (value: number | null, factor: number): number | null => (value === null ? null : value * factor)

/** Durations of a tile have one unit, so that they compare. `unitMs`: of the values. */
const durations =
  (unitMs: number): Tile['textFor'] =>
  (values) => {
    const unit = durationUnit(values.map((value) => times(value, unitMs)))
    return (value) => inUnit(times(value, unitMs), unit)
  }

const ttftTile = (figure: Figure, name: string, about: string): Tile => ({
  figure,
  name: `TTFT ${name}`,
  textFor: durations(1),
  about: `${about} time to first token, over the last minute.`,
})

const TILES: readonly Tile[] = [
  {
    figure: 'requests_per_s',
    name: 'requests/s',
    textFor: () => number,
    about: 'Requests placed on engines per second, over the last 10 to 20 s.',
  },
  {
    figure: 'output_tokens_per_s',
    name: 'output tokens/s',
    textFor: () => count,
    about: 'Output tokens per second, over the last 10 to 20 s, counted while they stream.',
  },
  {
    figure: 'failed_share',
    name: 'failed',
    textFor: () => share,
    about:
      'Requests that ended with an error after they were accepted, as a share of those that ended in the last ' +
      'minute. A failed attempt followed by a successful retry does not count.',
  },
  {
    figure: 'rejected_per_s',
    name: 'rejected/s',
    textFor: () => number,
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
    textFor: durations(1000),
    about: 'Longest queue of uncomputed prompts at an engine in the last 10 to 20 s, as time to compute them.',
  },
  {
    figure: 'kv_usage',
    name: 'highest KV use',
    textFor: () => percent,
    about: 'KV cache in use at the fullest engine, as it reports.',
  },
]

/** What an edge does not know. */
const LOAD: readonly Figure[] = ['queue_s', 'kv_usage']

interface SummaryProps {
  readonly lines: readonly EngineLine[]
  readonly view: View
  readonly samples: readonly TrafficSample[]
}

/** The first row: is the fleet well. Each figure with its last 15 minutes, which the gateway keeps. */
export function Summary({ lines, view, samples }: SummaryProps) {
  const reasons = rejectionReasons(samples)
  return (
    <dl class="tiles">
      <EnginesUp lines={lines} isEdge={isEdge(view.pools)} />
      <WaitingRequests view={view} />
      {TILES.filter(({ figure }) => !isEdge(view.pools) || !LOAD.includes(figure)).map((tile) => (
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

function EnginesUp({ lines, isEdge: ofRegions }: Pick<SummaryProps, 'lines'> & { readonly isEdge: boolean }) {
  const up = lines.filter(({ state }) => state === 'up').length
  const running = lines.reduce((sum, { engine }) => sum + (engine.requests ?? 0), 0)
  const tones = (['good', 'warn', 'bad'] as const).map(
    (tone) => [tone, lines.filter(({ state }) => toneOf(state) === tone).length] as const,
  )
  return (
    <div
      class="tile"
      title={`${ofRegions ? 'Regions' : 'Engines'} that may get requests now: healthy, not draining, and not full.`}
    >
      <dt>{ofRegions ? 'regions' : 'engines'} up</dt>
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

const toneOf = (state: EngineLine['state']): Tone =>
  state === 'up' ? 'good' : state === 'unhealthy' || state === 'wedged' || state === 'circuit' ? 'bad' : 'warn'

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
  const { figure, name, textFor, about } = tile
  const value = view.now?.[figure] ?? null
  const objective = figure.startsWith('ttft') ? objectiveOf(view.pools) : null
  const text = textFor([value, objective, ...(view.history?.[figure] ?? [])])
  const within = figure === 'ttft_p95_ms' ? (view.now?.within_slo_share ?? null) : null
  const isBad =
    (figure === 'failed_share' && (value ?? 0) > 0) ||
    (figure === 'rejected_per_s' && isHighRejection(view.now)) ||
    (objective !== null && (value ?? 0) > objective)
  return (
    <div
      class="tile"
      title={objective === null ? about : `${about} Objective: ${text(objective)}.`}
      data-figure={figure}
    >
      <dt>{name}</dt>
      <dd class={isBad ? 'bad' : ''}>{text(value)}</dd>
      <FigureHistory history={view.history} figure={figure} now={value} text={text} objective={objective} />
      {within !== null && (
        <dd class="under" title="First tokens of the last minute within their objective.">
          <span class={within < 0.95 ? 'bad' : 'good'}>{share(within)} within slo</span>
        </dd>
      )}
    </div>
  )
}
