/** State of a bridge, as JSON and as Prometheus text. */
import type { EngineListener } from './engine-listener.ts'
import type { Poster } from './poster.ts'

/** @testing */
export interface EngineStatus {
  readonly engine: string
  readonly cluster: string
  readonly model: string
  readonly reachable: boolean
  /** True if the full cache contents are known. */
  readonly complete: boolean
  readonly blocks: number
  /** Number of changes that the gateway has not acknowledged yet. */
  readonly waiting: number
  readonly batches: number
  /** Sequence number of the last batch; -1 if none arrived since the engine started. */
  readonly last_batch: number
  readonly events: number
  readonly unknown_events: number
  readonly gaps: number
  readonly restarts: number
  readonly losses: number
  readonly unnamed_blocks: number
  readonly engine_block_tokens: number | null
  /** The gateway's answer to the last update; null before the first answer. */
  readonly gateway: string | null
}

export interface BridgeStatus {
  /** Why the gateway rejects updates; null if it accepts them. */
  readonly problem: string | null
  readonly posts: number
  readonly failures: number
  readonly steps: number
  readonly resyncs: number
  /** Engines whose event sockets could not be discovered yet. */
  readonly awaited: number
  readonly engines: readonly EngineStatus[]
}

export function statusOf(listeners: readonly EngineListener[], poster: Poster, awaited: number): BridgeStatus {
  return {
    problem: poster.problem,
    ...poster.counts,
    awaited,
    engines: listeners.map((listener) => engineStatus(listener, poster)),
  }
}

function engineStatus(listener: EngineListener, poster: Poster): EngineStatus {
  const { engine, stream } = listener
  const { batches, events, unknownEvents, gaps, restarts, losses } = stream.counts
  return {
    engine: engine.id,
    cluster: engine.cluster,
    model: engine.pool.model,
    reachable: listener.isReachable,
    complete: stream.isComplete,
    blocks: stream.log.size,
    waiting: stream.log.pending,
    batches,
    last_batch: stream.lastSeq,
    events,
    unknown_events: unknownEvents,
    gaps,
    restarts,
    losses,
    unnamed_blocks: stream.unnamedBlocks,
    engine_block_tokens: stream.engineBlockTokens,
    gateway: poster.stateOf(listener),
  }
}

type Row = readonly [name: string, type: 'gauge' | 'counter', help: string, value: (engine: EngineStatus) => number]

const ROWS: readonly Row[] = [
  ['reachable', 'gauge', '1 if the engine is reachable.', (e) => Number(e.reachable)],
  ['complete', 'gauge', '1 if the full cache contents are known.', (e) => Number(e.complete)],
  ['blocks', 'gauge', 'Blocks in its cache.', (e) => e.blocks],
  ['waiting_blocks', 'gauge', 'Changes that the gateway has not acknowledged yet.', (e) => e.waiting],
  ['events_total', 'counter', 'Events processed.', (e) => e.events],
  ['gaps_total', 'counter', 'Gaps in the event stream.', (e) => e.gaps],
  ['restarts_total', 'counter', 'Restarts of the engine.', (e) => e.restarts],
  ['losses_total', 'counter', 'Times the known cache contents were discarded.', (e) => e.losses],
  [
    'unnamed_blocks_total',
    'counter',
    'Blocks without a hash: their parent is unknown, or they depend on more than tokens.',
    (e) => e.unnamed_blocks,
  ],
]

export function statusMetrics(status: BridgeStatus): string {
  const lines: string[] = []
  for (const [name, type, help, value] of ROWS) {
    lines.push(`# HELP firstlight_bridge_${name} ${help}`, `# TYPE firstlight_bridge_${name} ${type}`)
    for (const engine of status.engines) {
      const labels = (['cluster', 'model', 'engine'] as const).map((label) => `${label}=${quoted(engine[label])}`)
      lines.push(`firstlight_bridge_${name}{${labels.join(',')}} ${value(engine)}`)
    }
  }
  for (const [name, help] of [
    ['posts', 'Requests to the gateway.'],
    ['failures', 'Requests to the gateway that failed.'],
    ['steps', 'Steps that the gateway accepted.'],
    ['resyncs', 'Full snapshots that the gateway requested.'],
  ] as const) {
    lines.push(
      `# HELP firstlight_bridge_${name}_total ${help}`,
      `# TYPE firstlight_bridge_${name}_total counter`,
      `firstlight_bridge_${name}_total ${status[name]}`,
    )
  }
  lines.push(
    '# HELP firstlight_bridge_awaited_engines Engines whose event sockets could not be discovered yet.',
    '# TYPE firstlight_bridge_awaited_engines gauge',
    `firstlight_bridge_awaited_engines ${status.awaited}`,
  )
  return `${lines.join('\n')}\n`
}

const quoted = (text: string): string => JSON.stringify(text)

export const isHealthy = ({ problem, awaited, engines }: BridgeStatus): boolean =>
  problem === null &&
  awaited === 0 &&
  engines.every(({ reachable, gateway }) => reachable && (gateway === null || gateway === 'ok' || gateway === 'resync'))
