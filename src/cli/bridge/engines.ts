/** Which engines a bridge listens to, and where. */
import type { Config, EngineConfig, PoolSettings } from '../../config.ts'
import type { Log } from '../../ports.ts'
import type { BridgedEngine } from './engine-listener.ts'
import type { EventEndpoints } from './sockets.ts'

/** An engine of the configuration, before it is known where its events are. */
export interface WantedEngine extends Omit<BridgedEngine, 'events'> {
  readonly config: EngineConfig
}

/** All engines of a configuration. Those behind another gateway are that one's. */
export function enginesIn(config: Config): WantedEngine[] {
  const own = config.clusters.filter(({ gateway }) => gateway === undefined)
  return own.flatMap(({ id: cluster, pools }) =>
    pools.flatMap((pool) => pool.engines.map((engine) => wanted(cluster, pool, engine))),
  )
}

function wanted(cluster: string, { model, blockTokens }: PoolSettings, config: EngineConfig): WantedEngine {
  return { cluster, pool: { model, blockTokens }, id: config.id, config }
}

const NEXT = {
  none: 'start it with --kv-events-config, or name its sockets in kv_events of the configuration',
  ranks:
    'make each rank an engine of its own with the same url and `headers: { X-data-parallel-rank: "0" }`, so that requests go where the blocks are',
} as const

const ANSWER_MS = 5_000
const AGAIN_MS = 5_000

/**
 * Where each publishes: as configured, else as the engine itself says (`GET /kv_event_sources`). One that cannot be asked
 * yet is asked again; one that says it publishes nothing is left out, with a word in the log. Resolves with null when
 * the signal is aborted.
 */
export async function located(
  { config, ...engine }: WantedEngine,
  log: Log,
  signal: AbortSignal,
): Promise<BridgedEngine | null> {
  if (config.kvEvents !== null) return { ...engine, events: config.kvEvents }
  for (let tries = 0; !signal.aborted; tries++) {
    const asked = await ask(config)
    if (asked === 'none' || asked === 'ranks') {
      log.warn(asked === 'none' ? 'no_kv_events' : 'cache_of_each_rank', { engine: engine.id, next: NEXT[asked] })
      return null
    }
    if (asked !== 'away') return { ...engine, events: asked }
    if (tries === 0) log.info('engine_awaited', { engine: engine.id })
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, AGAIN_MS)
      signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
    })
  }
  return null
}

async function ask({ url, key, headers }: EngineConfig): Promise<EventEndpoints | 'none' | 'ranks' | 'away'> {
  try {
    const response = await fetch(`${url}/kv_event_sources`, {
      headers: { ...headers, ...(key === null ? {} : { authorization: `Bearer ${key}` }) },
      signal: AbortSignal.timeout(ANSWER_MS),
      redirect: 'error',
    })
    if (response.status >= 500) return 'away'
    if (response.status !== 200) return 'none'
    return endpointsOf(await response.json(), { host: new URL(url).hostname, rank: rankOf(headers) })
  } catch {
    return 'away'
  }
}

/** An engine that is one data-parallel rank of several behind an address is told apart by this header. null: it has none. */
function rankOf(headers: EngineConfig['headers']): string | null {
  return Object.entries(headers).find(([name]) => name.toLowerCase() === 'x-data-parallel-rank')?.[1] ?? null
}

/**
 * What vLLM says of its sockets, by rank and from where it stands: `tcp://*:5557`. `none`: it publishes nothing, or not by
 * ZeroMQ. `ranks`: several publish, and requests may go to any.
 */
export function endpointsOf(
  sources: unknown,
  { host, rank }: { readonly host: string; readonly rank: string | null },
): EventEndpoints | 'none' | 'ranks' {
  const byRank = typeof sources === 'object' && sources !== null ? (sources as Record<string, unknown>) : {}
  const ranks = rank === null ? Object.keys(byRank) : [rank]
  if (ranks.length > 1) return 'ranks'
  const own = byRank[ranks[0] ?? '']
  const {
    enable_kv_cache_events: enabled,
    publisher,
    endpoint,
    replay_endpoint: replay,
    topic,
  } = (own ?? {}) as Record<string, unknown>
  if (enabled !== true || publisher !== 'zmq' || typeof endpoint !== 'string') return 'none'
  const reached = (address: string) => address.replace(/^tcp:\/\/(\*|0\.0\.0\.0|\[?::\]?):/, `tcp://${host}:`)
  return {
    endpoint: reached(endpoint),
    replayEndpoint: typeof replay === 'string' ? reached(replay) : null,
    topic: typeof topic === 'string' ? topic : '',
  }
}
