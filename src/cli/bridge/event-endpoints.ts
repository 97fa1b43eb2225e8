/** Event endpoints of an engine, as configured or as the engine reports them. */
import type { EngineConfig } from '../../config.ts'
import type { Log } from '../../ports/log.ts'
import type { BridgedEngine } from './engine-listener.ts'
import type { BridgeEngine } from './engines.ts'
import type { EventEndpoints } from './sockets.ts'

const NEXT = {
  none: 'start the engine with --kv-events-config, or set kv_events in the configuration',
  ranks:
    'configure each rank as an engine with the same url and `headers: { X-data-parallel-rank: "0" }`, so that ' +
    'requests reach the rank that has the blocks',
} as const

const ANSWER_MS = 5_000

const RETRY_MS = 5_000

/**
 * Resolves the event endpoints of each engine: as configured, or as the engine reports them (`GET /kv_event_sources`).
 * Retries engines that do not answer. Leaves out engines that publish nothing, with a log line. Resolves with null
 * when the signal aborts.
 */
export async function locateEvents(
  { config, ...engine }: BridgeEngine,
  log: Log,
  signal: AbortSignal,
): Promise<BridgedEngine | null> {
  const { kvEvents } = config
  if (kvEvents !== null) return { ...engine, events: { ...kvEvents, topic: kvEvents.topic ?? '' } }
  for (let tries = 0; !signal.aborted; tries++) {
    const asked = await askEventSources(config)
    if (asked === 'none' || asked === 'ranks') {
      log.warn(asked === 'none' ? 'no_kv_events' : 'cache_of_each_rank', { engine: engine.id, next: NEXT[asked] })
      return null
    }
    if (asked !== 'away') return { ...engine, events: asked }
    if (tries === 0) log.info('engine_awaited', { engine: engine.id })
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, RETRY_MS)
      signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
    })
  }
  return null
}

async function askEventSources({
  url,
  key,
  headers,
}: EngineConfig): Promise<EventEndpoints | 'none' | 'ranks' | 'away'> {
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

/** Header value that selects one data-parallel rank behind a shared address; null if there is none. */
function rankOf(headers: EngineConfig['headers']): string | null {
  return Object.entries(headers).find(([name]) => name.toLowerCase() === 'x-data-parallel-rank')?.[1] ?? null
}

/**
 * Reads vLLM's event endpoints by rank, as seen from the engine (`tcp://*:5557`). `none`: the engine publishes
 * nothing, or not by ZeroMQ. `ranks`: several ranks publish, and a request may reach any of them.
 * @testing
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
