/** Event endpoints of an engine, as configured or as the engine reports them. */
import type { EngineConfig } from '../../config.ts'
import { ENGINE_TYPES, engineTypeOf } from '../../engines/engine-registry.ts'
import type { KvEventRules, KvEventSource } from '../../engines/engine-type.ts'
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
 * Resolves the event endpoints of each engine: as configured, or as the engine reports them.
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
    const sources = await askEventSources(config)
    if (sources === 'none' || sources === 'ranks') {
      log.warn(sources === 'none' ? 'no_kv_events' : 'cache_of_each_rank', { engine: engine.id, next: NEXT[sources] })
      return null
    }
    if (sources !== 'away') return { ...engine, events: sources }
    if (tries === 0) log.info('engine_awaited', { engine: engine.id })
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, RETRY_MS)
      signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
    })
  }
  return null
}

type EventSources = NonNullable<KvEventRules['sources']>

/** Sources of the configured type; of an engine without one, those of all types. */
function sourcesOf({ type }: EngineConfig): readonly EventSources[] {
  const types = type === 'auto' ? ENGINE_TYPES : [engineTypeOf(type)]
  return types.flatMap(({ kvEvents }) => kvEvents?.sources ?? [])
}

async function askEventSources(config: EngineConfig): Promise<EventEndpoints | 'none' | 'ranks' | 'away'> {
  const rank = rankOf(config.headers)
  for (const sources of sourcesOf(config)) {
    const found = await askAt(config, sources)
    if (found === 'away') return 'away'
    if (found !== null) return endpointsOf(found, { host: new URL(config.url).hostname, rank })
  }
  return 'none'
}

/** null: the engine has no such route. */
async function askAt(
  { url, key, headers }: EngineConfig,
  { path, read }: EventSources,
): Promise<readonly KvEventSource[] | 'away' | null> {
  try {
    const response = await fetch(`${url}${path}`, {
      headers: { ...headers, ...(key === null ? {} : { authorization: `Bearer ${key}` }) },
      signal: AbortSignal.timeout(ANSWER_MS),
      redirect: 'error',
    })
    if (response.status >= 500) return 'away'
    return response.status === 200 ? read(await response.json()) : null
  } catch {
    return 'away'
  }
}

/** Header value that selects one data-parallel rank behind a shared address; null if there is none. */
function rankOf(headers: EngineConfig['headers']): string | null {
  return Object.entries(headers).find(([name]) => name.toLowerCase() === 'x-data-parallel-rank')?.[1] ?? null
}

/**
 * Chooses the sockets of an engine by rank, with the address at which the bridge reaches them (`tcp://*:5557` is the
 * engine's own). `none`: the engine publishes nothing, or not by ZeroMQ. `ranks`: several ranks publish, and a request
 * may reach any of them.
 * @testing
 */
export function endpointsOf(
  sources: readonly KvEventSource[],
  { host, rank }: { readonly host: string; readonly rank: string | null },
): EventEndpoints | 'none' | 'ranks' {
  if (rank === null && sources.length > 1) return 'ranks'
  const own = rank === null ? sources[0] : sources.find((source) => source.rank === rank)
  if (own === undefined || !own.enabled) return 'none'
  const reached = (address: string) => address.replace(/^tcp:\/\/(\*|0\.0\.0\.0|\[?::\]?):/, `tcp://${host}:`)
  return {
    endpoint: reached(own.endpoint),
    replayEndpoint: own.replayEndpoint === null ? null : reached(own.replayEndpoint),
    topic: own.topic ?? '',
  }
}
