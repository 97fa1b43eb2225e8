/** Probes one engine by the routes of its type: health, load, sleep state; once type, version and capacity. */
import { METRICS_PATHS, readMetrics, readRankMetrics, type MeasuredLoad } from '../../engines/engine-registry.ts'
import type { RankStats } from '../../core/contract/engine-signal.ts'
import { adaptersFromModels } from '../../engines/model-list.ts'
import type { EngineType, RankLoad } from '../../engines/engine-type.ts'
import { type EngineTarget, isOwnEngine } from '../../ports/engine-target.ts'
import type { Log } from '../../ports/log.ts'
import type { Origin } from '../../ports/origin.ts'
import type { Probe, ProbeSignal } from '../../ports/probe.ts'
import { detectByRoutes, jsonOf } from './engine-detection.ts'
import { readRoute } from '../engine-route.ts'
import { KnownEngines, knownEngines } from '../known-engines.ts'
import { healthOf, newHealthMemory, type HealthMemory } from './health-checks.ts'

/** Time limit, ms, of sleep states. An engine in a long step answers late; a paused engine is idle. */
const STATE_MS = 1_000

const RARE_MS = 1_000

/** Time, ms, after which a route that an engine lacks, or a value that rarely changes, is asked for again. */
const KEPT_MS = 600_000

/** The same for a value that the route exists for, but lacks: the engine may yet load the model. */
const UNLISTED_MS = 30_000

/** The same for adapters whose names clients may request because the engine reports them. */
const REPORTED_MS = 5_000

/** Limit of metrics, bytes. A vLLM engine sends about 100 KB, with many adapters more. */
const METRICS_BYTES = 4 * 1024 * 1024

/** What an engine answered, and until when it is not asked again, ms since the epoch. */
interface KeptAnswer<Value> {
  readonly value: Value
  readonly until: number
}

/**
 * What earlier probes found, by URL of the engine. Cleared when an engine fails: it may return as another one. Ends
 * after a time, because an engine may be replaced between two probes.
 */
export interface ProbeMemory {
  readonly known: KnownEngines
  /** URL and path of sleep states that an engine does not have, until when they are not asked for. */
  readonly missingStates: Map<string, number>
  /** Metrics path of engines whose first answer showed which one to read. */
  readonly paths: Map<string, KeptAnswer<string>>
  /** null: no such route. */
  readonly versions: Map<string, KeptAnswer<string | null>>
  /** By URL and model. null: the engine does not report it. */
  readonly contexts: Map<string, KeptAnswer<number | null>>
  /** By URL. null: the engine lists no models. */
  readonly adapters: Map<string, KeptAnswer<readonly string[] | null>>
  readonly health: HealthMemory
}

export const newProbeMemory = (known: KnownEngines = new KnownEngines()): ProbeMemory => ({
  known,
  missingStates: new Map(),
  paths: new Map(),
  versions: new Map(),
  contexts: new Map(),
  adapters: new Map(),
  health: newHealthMemory(),
})

interface ProbeContext extends ProbeMemory {
  readonly origin: Origin
  readonly log: Log
  readonly now: () => number
}

/**
 * Returns a function that probes an engine over the same connections as requests, with the same keys and bindings.
 * Never rejects.
 */
export function engineProbe(
  origin: Origin,
  log: Log,
  memory: ProbeMemory = newProbeMemory(knownEngines(origin)),
): Probe {
  return async (target, now) => {
    const context: ProbeContext = { ...memory, origin, log, now }
    const sentAt = now()
    const health = await healthOf({ ...context, memory: context.health }, target)
    if (health.problem === 'gateway_limit') return null
    if (health.problem !== null) forget(memory, target)
    const found = health.problem === null ? await factsOf(context, target, health.server) : NO_FACTS
    const signal: ProbeSignal = {
      kind: 'probe',
      engine: target.id,
      at: now(),
      sentAt,
      healthy: health.problem === null,
      asleep: found.isAway || (found.load?.asleep ?? false),
      stats: found.load?.stats ?? null,
      ...(health.problem === null ? {} : { problem: health.problem }),
      ...(found.version === null ? {} : { version: found.version }),
      ...(found.contextTokens === null ? {} : { contextTokens: found.contextTokens }),
      ...(found.adapters === null ? {} : { adapters: found.adapters }),
      ...(found.ranks === null ? {} : { ranks: found.ranks }),
    }
    return signal
  }
}

function forget(memory: ProbeMemory, target: EngineTarget): void {
  const { known, missingStates, paths, versions } = memory
  known.doubt(target)
  for (const key of missingStates.keys()) if (key.startsWith(`${target.url} `)) missingStates.delete(key)
  paths.delete(target.url)
  versions.delete(target.url)
  forgetContext(memory, target)
}

/** After a failed request: the engine may serve another model now, or the same one with another context. */
export function forgetContext({ contexts, adapters }: ProbeMemory, { url }: EngineTarget): void {
  adapters.delete(url)
  for (const key of contexts.keys()) if (key.startsWith(`${url} `)) contexts.delete(key)
}

interface Facts {
  readonly load: MeasuredLoad | null
  /** Asleep or paused by a route. */
  readonly isAway: boolean
  readonly version: string | null
  readonly contextTokens: number | null
  readonly adapters: readonly string[] | null
  /** null: the target is one engine. */
  readonly ranks: readonly RankStats[] | null
}

const NO_FACTS: Facts = { load: null, isAway: false, version: null, contextTokens: null, adapters: null, ranks: null }

async function factsOf(context: ProbeContext, target: EngineTarget, server: string | null): Promise<Facts> {
  const { load, text } = await scrape(context, target)
  const type = await typeOf(context, target, { load, metrics: text, server })
  const [isAway, version, contextTokens, adapters, ranks] = await Promise.all([
    isAwayNow(context, target, type),
    versionOf(context, target, type),
    contextTokensOf(context, target, type),
    isOwnEngine(target) && target.hasAdapters === true ? adaptersOf(context, target, type) : null,
    target.kind !== 'server' || target.ranks === undefined
      ? null
      : ranksOfServer(context, target, { type, metrics: text }),
  ])
  return { load, isAway, version, contextTokens, adapters, ranks }
}

/** Load of each rank by the metrics that were read, else by the route of its type. */
async function ranksOfServer(
  { origin, log }: ProbeContext,
  target: EngineTarget,
  { type, metrics }: { readonly type: EngineType; readonly metrics: string | null },
): Promise<readonly RankStats[]> {
  const inMetrics = metrics === null ? [] : readRankMetrics(metrics)
  const route = type.load?.ranksRoute ?? null
  if (inMetrics.length > 0 || route === null) return inMetrics
  try {
    const { status, text } = await readRoute(origin, target, route.path, { limitMs: STATE_MS })
    return status === 200 ? route.read(jsonOf(text)).map(rankStatsOf) : []
  } catch (error) {
    log.debug('probe_ranks_failed', { engine: target.id, error })
    return []
  }
}

const rankStatsOf = ({ rank, running, waiting, kvUsage }: RankLoad): RankStats => ({
  rank,
  stats: { running, waiting, kvUsage, blockTokens: null, cacheBlocks: null, prefixCaching: null, adapters: null },
  completed: null,
})

interface Signs {
  readonly load: MeasuredLoad | null
  readonly metrics: string | null
  readonly server: string | null
}

/** Type of the engine. Metrics show it at every probe, other signs are read once. */
async function typeOf(context: ProbeContext, target: EngineTarget, { load, ...signs }: Signs): Promise<EngineType> {
  const { known, origin } = context
  if (known.isConfigured(target)) return known.typeOf(target)
  if (known.isDetected(target) && (load === null || load.type === known.typeOf(target))) return known.typeOf(target)
  const type = load?.type ?? (await detectByRoutes(origin, target, signs))
  if (type === null) return known.typeOf(target)
  if (known.isDetected(target)) forget(context, target)
  known.detected(target, type)
  return type
}

/** null: the engine does not report it. */
async function versionOf(context: ProbeContext, target: EngineTarget, { version }: EngineType): Promise<string | null> {
  if (version === null) return null
  const { path, pattern } = version
  return readRarely(context, target, {
    path,
    key: target.url,
    found: context.versions,
    read: (text) => pattern.exec(text)?.[1] ?? null,
  })
}

/** Longest prompt with output. null: the engine does not report it. */
async function contextTokensOf(
  context: ProbeContext,
  target: EngineTarget,
  { capacity }: EngineType,
): Promise<number | null> {
  if (capacity === null || target.model === undefined) return null
  const { path, read } = capacity
  const model = target.model
  return readRarely(context, target, {
    path,
    key: `${target.url} ${model}`,
    found: context.contexts,
    read: (text) => read(jsonOf(text), model).contextTokens,
  })
}

/** Adapters come and go, so they are read often. null: not reported. */
async function adaptersOf(
  context: ProbeContext,
  target: EngineTarget,
  { adapters }: EngineType,
): Promise<readonly string[] | null> {
  if (adapters === null) return null
  return readRarely(context, target, {
    path: '/v1/models',
    key: target.url,
    found: context.adapters,
    keptMs: isOwnEngine(target) && target.reportsAdapters === true ? REPORTED_MS : UNLISTED_MS,
    read: (text) => adaptersFromModels(jsonOf(text)),
  })
}

interface RareRead<Value> {
  readonly path: string
  readonly key: string
  readonly found: Map<string, KeptAnswer<Value | null>>
  readonly read: (text: string) => Value | null
  /** Time for which a value holds, ms. Absent: that of values that rarely change. */
  readonly keptMs?: number
}

/** Reads a value that rarely changes. */
async function readRarely<Value>(
  { origin, now }: ProbeContext,
  target: EngineTarget,
  { path, key, found, read, keptMs = KEPT_MS }: RareRead<Value>,
): Promise<Value | null> {
  const known = found.get(key)
  if (known !== undefined && now() < known.until) return known.value
  try {
    const { status, text } = await readRoute(origin, target, path, { limitMs: RARE_MS })
    const value = status === 200 ? read(text) : null
    if (status < 500)
      found.set(key, { value, until: now() + (status === 200 && value === null ? UNLISTED_MS : keptMs) })
    return value
  } catch {
    return null
  }
}

interface Scraped {
  readonly load: MeasuredLoad | null
  /** null: no metrics. */
  readonly text: string | null
}

const NO_METRICS: Scraped = { load: null, text: null }

/**
 * Reads the metrics, at the second path if the first is missing or JSON. Only the first probe asks for both, because
 * each read of the JSON removes records that another reader needs.
 */
async function scrape(context: ProbeContext, target: EngineTarget): Promise<Scraped> {
  const { known, log, paths, now } = context
  const [first, second] = known.typeOf(target).load?.paths ?? METRICS_PATHS
  const kept = paths.get(target.url)
  const chosen = kept !== undefined && now() < kept.until ? kept.value : undefined
  try {
    const answer = await metricsAt(context, target, chosen ?? first!)
    if (chosen !== undefined || second === undefined || !answer.isOther) return answer
    const other = await metricsAt(context, target, second)
    const isFound = other.status === 200
    paths.set(target.url, { value: isFound ? second : first!, until: isFound ? Infinity : now() + KEPT_MS })
    return other
  } catch (error) {
    log.debug('probe_metrics_failed', { engine: target.id, error })
    return NO_METRICS
  }
}

interface MetricsAnswer extends Scraped {
  readonly status: number
  /** The path does not exist, or it is JSON. */
  readonly isOther: boolean
}

async function metricsAt({ origin }: ProbeContext, target: EngineTarget, path: string): Promise<MetricsAnswer> {
  const { status, text } = await readRoute(origin, target, path, { limitBytes: METRICS_BYTES })
  const isJson = status === 200 && /^\s*[[{]/.test(text)
  const isRead = status === 200 && !isJson
  return {
    load: isRead ? readMetrics(text) : null,
    text: isRead ? text : null,
    status,
    isOther: isJson || status === 404,
  }
}

/**
 * A sleeping or paused engine looks healthy in its health check, and requests hang. States that its metrics contain are
 * not asked for. Engines without a route are asked rarely.
 */
async function isAwayNow(context: ProbeContext, target: EngineTarget, { sleep, load }: EngineType): Promise<boolean> {
  const states = (sleep?.states ?? []).filter(({ means }) => means !== 'asleep' || load?.metrics.awake == null)
  const answers = await Promise.all(states.map(({ path, field }) => isInState(context, target, path, field)))
  return answers.includes(true)
}

async function isInState(
  { origin, missingStates, now }: ProbeContext,
  target: EngineTarget,
  path: string,
  field: string,
): Promise<boolean> {
  const key = `${target.url} ${path}`
  if (now() < (missingStates.get(key) ?? 0)) return false
  try {
    const { status, text } = await readRoute(origin, target, path, { limitMs: STATE_MS })
    if (status >= 400 && status < 500) missingStates.set(key, now() + KEPT_MS)
    return new RegExp(`"${field}": ?true`).test(text)
  } catch {
    return false
  }
}
