import type { EngineState, Line } from './engine-state.ts'
import { ttftError } from './prediction.tsx'
import { count, ms, percent, quantile, seconds } from './format.ts'
import { ttftOf } from './history.ts'
import type { Decision } from './wire.ts'

interface TilesProps {
  readonly lines: readonly Line[]
  /** With a first token or an outcome. */
  readonly decisions: readonly Decision[]
}

/** States that need attention. Draining and sleeping are intended. */
const SEVERE: ReadonlySet<EngineState> = new Set(['unhealthy', 'circuit', 'unknown'])

const sum = (values: readonly number[]): number | null =>
  values.length === 0 ? null : values.reduce((total, value) => total + value)

/** Key figures of the fleet. TTFTs are those of the latest first tokens. */
export function Tiles({ lines, decisions }: TilesProps) {
  const up = lines.filter(({ state }) => state === 'up').length
  // Blocks and queues of engines behind another gateway are unknown here.
  const known = (value: (line: Line) => number | undefined) => lines.flatMap((line) => value(line) ?? [])
  const queues = known(({ engine }) => engine.queued_prefill_s)
  const rates = lines.flatMap(({ engine }) => engine.hit_rate ?? [])
  const errors = decisions.flatMap(ttftError)
  const ttfts = decisions.flatMap((decision) => ttftOf(decision) ?? [])
  return (
    <dl class="tiles">
      <Tile
        name="engines up"
        value={`${count(up)} of ${count(lines.length)}`}
        tone={up === lines.length ? 'good' : lines.some(({ state }) => SEVERE.has(state)) ? 'bad' : 'warn'}
      />
      <Tile name="running" value={count(sum(known(({ engine }) => engine.requests)))} />
      <Tile name="active blocks" value={count(sum(known(({ engine }) => engine.active_blocks)))} />
      <Tile name="longest queue" value={seconds(queues.length === 0 ? null : Math.max(...queues))} />
      <Tile
        name="hit rate"
        value={percent(rates.length === 0 ? null : rates.reduce((a, b) => a + b, 0) / rates.length)}
      />
      <Tile name="TTFT p50" value={ms(quantile(ttfts, 0.5))} />
      <Tile name="TTFT p95" value={ms(quantile(ttfts, 0.95))} />
      <Tile name="prediction error (median)" value={percent(quantile(errors, 0.5))} />
    </dl>
  )
}

function Tile({ name, value, tone = '' }: { readonly name: string; readonly value: string; readonly tone?: string }) {
  return (
    <div class="tile">
      <dt>{name}</dt>
      <dd class={tone}>{value}</dd>
    </div>
  )
}
