/** Event endpoints of an engine, as configured or as the engine reports them. */
import type { EngineConfig } from '../../config.ts'
import { ranksOf } from '../../config/ranks.ts'
import { rankIdOf } from '../../core/contract/rank-id.ts'
import { guideOf, type KvEventRules } from '../../engines/engine-guides.ts'
import { ENGINE_TYPES, engineTypeOf } from '../../engines/engine-registry.ts'
import type { KvEventSource } from '../../engines/kv-event-source.ts'
import type { Log } from '../../ports/log.ts'
import type { BridgedEngine } from './engine-listener.ts'
import type { BridgeEngine } from './engines.ts'
import type { EventEndpoints } from './sockets.ts'

const NEXT = {
  none: 'start the engine with --kv-events-config, or set kv_events in the configuration',
  ranks:
    'set `data_parallel: auto` of the engine, so that each rank is an engine and requests reach the rank that has ' +
    'the blocks',
} as const

const ANSWER_MS = 5_000

const RETRY_MS = 5_000

/**
 * Resolves the event endpoints of an engine: as configured, or as the engine reports them. A server with ranks has one
 * for each of them. Retries engines that do not answer. Leaves out engines that publish nothing, with a log line, and
 * all when the signal aborts.
 */
export async function locateEvents(
  { config, ...engine }: BridgeEngine,
  log: Log,
  signal: AbortSignal,
): Promise<readonly BridgedEngine[]> {
  if (config.kvEvents !== null) return configuredEvents(engine, config, config.kvEvents)
  for (let tries = 0; !signal.aborted; tries++) {
    const sources = await askEventSources(config)
    if (sources !== 'away') {
      const located = locatedAt(sources, { engine, config })
      if (typeof located !== 'string') return located
      log.warn(located === 'none' ? 'no_kv_events' : 'cache_of_each_rank', { engine: engine.id, next: NEXT[located] })
      return []
    }
    if (tries === 0) log.info('engine_awaited', { engine: engine.id })
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, RETRY_MS)
      signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
    })
  }
  return []
}

type LocatedEngine = Omit<BridgeEngine, 'config'>

/** Ranks publish on consecutive ports, by their number in the deployment. */
function configuredEvents(
  engine: LocatedEngine,
  config: EngineConfig,
  { endpoint, replayEndpoint, topic }: NonNullable<EngineConfig['kvEvents']>,
): readonly BridgedEngine[] {
  const ranks = ranksOf(config)
  const events = { endpoint, replayEndpoint, topic: topic ?? '' }
  if (ranks === null || ranks.count === null) return [{ ...engine, events }]
  return Array.from({ length: ranks.count }, (_, at) => {
    const rank = ranks.first + at
    const ofRank = (address: string): string => address.replace(/:(\d+)$/, (_all, port) => `:${Number(port) + rank}`)
    return {
      ...engine,
      id: rankIdOf(engine.id, rank),
      rank,
      events: {
        ...events,
        endpoint: ofRank(endpoint),
        replayEndpoint: replayEndpoint === null ? null : ofRank(replayEndpoint),
      },
    }
  })
}

/** Engines with sockets among the reported ones. */
function locatedAt(
  sources: readonly KvEventSource[],
  { engine, config }: { readonly engine: LocatedEngine; readonly config: EngineConfig },
): readonly BridgedEngine[] | 'none' | 'ranks' {
  const ranks = ranksOf(config)
  const host = new URL(config.url).hostname
  if (ranks === null || (ranks.count === null && sources.length < 2)) {
    const events = endpointsOf(sources, { host, rank: ranks === null ? rankOf(config.headers) : null })
    return typeof events === 'string' ? events : [{ ...engine, events }]
  }
  const sorted = [...sources].sort((a, b) => Number(a.rank) - Number(b.rank))
  const located = Array.from({ length: ranks.count ?? sorted.length }, (_, at) => {
    const number = ranks.first + at
    // Ranks that are found count from 0 at each server.
    const rank = ranks.count === null ? sorted[at]!.rank : String(number)
    const events = endpointsOf(sources, { host, rank })
    return typeof events === 'string'
      ? []
      : [{ ...engine, id: rankIdOf(engine.id, number), rank: Number(rank), events }]
  }).flat()
  return located.length === 0 ? 'none' : located
}

type EventSources = NonNullable<KvEventRules['sources']>

/** Sources of the configured type; of an engine without one, those of all types. */
function sourcesOf({ type }: EngineConfig): readonly EventSources[] {
  const types = type === 'auto' ? ENGINE_TYPES : [engineTypeOf(type)]
  return types.flatMap((one) => guideOf(one).kvEvents?.sources ?? [])
}

/** Empty: the engine has no such route. */
async function askEventSources(config: EngineConfig): Promise<readonly KvEventSource[] | 'away'> {
  for (const sources of sourcesOf(config)) {
    const found = await askAt(config, sources)
    if (found !== null) return found
  }
  return []
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
