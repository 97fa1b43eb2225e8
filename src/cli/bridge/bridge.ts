import type { DeltaLimits } from '../../core/kv-events/delta-log.ts'
import type { Log } from '../../ports.ts'
import { type BridgedEngine, EngineListener } from './engine-listener.ts'
import { Poster, type PosterOptions } from './poster.ts'
import type { OpenEventSocket } from './sockets.ts'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { addressText } from '../../config/fields.ts'

/* State of a bridge, as JSON and as Prometheus text. */

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
    waiting: stream.log.waiting,
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

export interface StatusListener {
  readonly url: string
  close(): Promise<void>
}

/** Serves `/status`, `/metrics` and `/health` (503 while the gateway rejects updates or an engine is unreachable). */
export async function listenForStatus(
  { host, port }: { readonly host: string; readonly port: number },
  status: () => BridgeStatus,
): Promise<StatusListener> {
  const server = createServer((request, response) => {
    const now = status()
    const path = request.url?.split('?')[0]
    const answer = (code: number, type: string, body: string) =>
      void response.writeHead(code, { 'content-type': type }).end(body)
    if (path === '/metrics') answer(200, 'text/plain; version=0.0.4', statusMetrics(now))
    else if (path === '/status') answer(200, 'application/json', JSON.stringify(now))
    else if (path === '/health')
      answer(isWell(now) ? 200 : 503, 'application/json', JSON.stringify({ status: isWell(now) ? 'ok' : 'unwell' }))
    else answer(404, 'text/plain', 'GET /status, /metrics or /health\n')
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
  const { port: bound } = server.address() as AddressInfo
  return {
    url: `http://${addressText({ host, port: bound })}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

const isWell = ({ problem, awaited, engines }: BridgeStatus): boolean =>
  problem === null &&
  awaited === 0 &&
  engines.every(({ reachable, gateway }) => reachable && (gateway === null || gateway === 'ok' || gateway === 'resync'))

export interface BridgeOptions extends Pick<PosterOptions, 'gateway' | 'key' | 'flushMs' | 'heartbeatMs'> {
  readonly engines: readonly BridgedEngine[]
  readonly open: OpenEventSocket
  readonly log: Log
  /** Silence in milliseconds after which an engine is polled. Default: 1 s. */
  readonly checkMs?: number
  readonly limits?: DeltaLimits
  readonly now?: () => number
}

export interface RunningBridge {
  /**
   * Adds an engine once `asked` resolves with its sockets (null: it publishes none). `asked` must not reject. The
   * returned function removes the engine.
   */
  join(asked: Promise<BridgedEngine | null>): () => Promise<void>
  status(): BridgeStatus
  close(): Promise<void>
}

const LIMITS: DeltaLimits = { stepBlocks: 10_000, waitingBlocks: 100_000 }

/** Starts to listen to the engines and to forward their events to the gateway. Runs until closed. */
export function startBridge({
  engines,
  open,
  log,
  checkMs = 1_000,
  limits = LIMITS,
  now = Date.now,
  ...way
}: BridgeOptions): RunningBridge {
  const over = new AbortController()
  const listeners = new Set<EngineListener>()
  const poster = new Poster([], { ...way, log, now, epoch: now() })
  const listen = (engine: BridgedEngine): EngineListener => {
    const listener = new EngineListener(engine, { open, limits, now, log, changed: () => poster.changed(), checkMs })
    listeners.add(listener)
    poster.add(listener)
    return listener
  }
  for (const engine of engines) listen(engine)
  let awaited = 0
  const posting = poster.run(over.signal)
  return {
    join(asked) {
      let left = false
      awaited += 1
      const joined = asked.then((engine) => {
        awaited -= 1
        return engine === null || left || over.signal.aborted ? null : listen(engine)
      })
      return async () => {
        left = true
        const listener = await joined
        if (listener === null || !listeners.delete(listener)) return
        poster.remove(listener)
        await listener.close()
      }
    },
    status: () => statusOf([...listeners], poster, awaited),
    close: async () => {
      over.abort()
      await Promise.all([posting, ...Array.from(listeners, (listener) => listener.close())])
    },
  }
}
