/** Which engines a bridge listens to, and where. */
import type { Config, EngineConfig, PoolSettings } from '../../../config.ts'
import type { Log } from '../../../ports.ts'
import type { BridgedEngine } from './engine-listener.ts'
import type { EventEndpoints } from './sockets.ts'

/** An engine of the configuration, before it is known where its events are. */
export interface WantedEngine extends Omit<BridgedEngine, 'events'> {
  readonly config: EngineConfig
}

/** All engines of a configuration, or those named. */
export function enginesIn(config: Config, named: readonly string[]): WantedEngine[] {
  return config.clusters.flatMap(({ id: cluster, pools }) =>
    pools.flatMap((pool) => pool.engines.filter(({ id }) => named.length === 0 || named.includes(id)).map((engine) => wanted(cluster, pool, engine))),
  )
}

function wanted(cluster: string, { model, blockTokens }: PoolSettings, config: EngineConfig): WantedEngine {
  return { cluster, pool: { model, blockTokens }, id: config.id, config }
}

const ANSWER_MS = 5_000
const AGAIN_MS = 5_000

/**
 * Where each publishes: as configured, else as the engine itself says (`GET /kv_event_sources`). One that cannot be asked
 * yet is asked again; one that says it publishes nothing is left out, with a word in the log. Resolves with null when
 * the signal is aborted.
 */
export async function located({ config, ...engine }: WantedEngine, log: Log, signal: AbortSignal): Promise<BridgedEngine | null> {
  if (config.kvEvents !== null) return { ...engine, events: config.kvEvents }
  for (let tries = 0; !signal.aborted; tries++) {
    const asked = await ask(config)
    if (asked === 'none') {
      log.warn('engine publishes no KV events', { engine: engine.id, next: 'start it with --kv-events-config, or name its sockets in kv_events of the configuration' })
      return null
    }
    if (asked !== 'away') return { ...engine, events: asked }
    if (tries === 0) log.info('engine cannot be asked for its event sockets yet', { engine: engine.id })
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, AGAIN_MS)
      signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
    })
  }
  return null
}

async function ask({ url, key, headers }: EngineConfig): Promise<EventEndpoints | 'none' | 'away'> {
  try {
    const response = await fetch(`${url}/kv_event_sources`, { headers: { ...headers, ...(key === null ? {} : { authorization: `Bearer ${key}` }) }, signal: AbortSignal.timeout(ANSWER_MS), redirect: 'error' })
    if (response.status >= 500) return 'away'
    if (response.status !== 200) return 'none'
    return endpointsOf(await response.json(), { host: new URL(url).hostname, rank: rankOf(headers) }) ?? 'none'
  } catch {
    return 'away'
  }
}

/** An engine that is one data-parallel rank of several behind an address is told apart by this header. */
function rankOf(headers: EngineConfig['headers']): string {
  return Object.entries(headers).find(([name]) => name.toLowerCase() === 'x-data-parallel-rank')?.[1] ?? '0'
}

/** What vLLM says of its sockets, from where it stands: `tcp://*:5557`. null: it publishes nothing, or not by ZeroMQ. */
export function endpointsOf(sources: unknown, { host, rank }: { readonly host: string; readonly rank: string }): EventEndpoints | null {
  const own = typeof sources === 'object' && sources !== null ? (sources as Record<string, unknown>)[rank] : undefined
  const { enable_kv_cache_events: enabled, publisher, endpoint, replay_endpoint: replay, topic } = (own ?? {}) as Record<string, unknown>
  if (enabled !== true || publisher !== 'zmq' || typeof endpoint !== 'string') return null
  const reached = (address: string) => address.replace(/^tcp:\/\/(\*|0\.0\.0\.0|\[?::\]?):/, `tcp://${host}:`)
  return { endpoint: reached(endpoint), replayEndpoint: typeof replay === 'string' ? reached(replay) : null, topic: typeof topic === 'string' ? topic : '' }
}
