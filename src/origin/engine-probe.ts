/** Probes one engine: `/health`, then `/metrics`, `/version` once, and `/is_paused` where it exists. */
import type { EngineTarget } from '../ports/engine-target.ts'
import type { Log } from '../ports/log.ts'
import { type Origin, type OriginAnswer, OriginError } from '../ports/origin.ts'
import type { Probe, ProbeSignal } from '../ports/probe.ts'
import { SECOND_METRICS_PATH } from './engine-metrics.ts'
import { type EngineScrape, readEngineMetrics } from './metrics-text.ts'

/**
 * Time limit of a probe, ms. A healthy engine answers in milliseconds under full load too, because its HTTP server is
 * a separate process.
 */
const CONNECT_MS = 2_000

const ANSWER_MS = 5_000

/** Time limit, ms, of `/is_paused`. An engine in a long step answers late; a paused engine is idle. */
const PAUSED_MS = 1_000

const VERSION_MS = 1_000

const HEALTH_BYTES = 64 * 1024

/** Limit of `/metrics`, bytes. A vLLM engine sends about 100 KB, with many adapters more. */
const METRICS_BYTES = 4 * 1024 * 1024

/** What earlier probes found, by URL of the engine. Cleared when an engine fails: it may return as another one. */
interface ProbeMemory {
  /** Engines without `/is_paused`. */
  readonly unpausable: Set<string>
  /** Metrics path of engines whose first answer showed which one to read. */
  readonly paths: Map<string, string>
  /** Versions by `/version`; null: no such route. */
  readonly versions: Map<string, string | null>
}

export const newProbeMemory = (): ProbeMemory => ({ unpausable: new Set(), paths: new Map(), versions: new Map() })

/**
 * Returns a function that probes an engine over the same connections as requests, with the same keys and bindings.
 * Never rejects.
 */
export function engineProbe(origin: Origin, log: Log, memory: ProbeMemory = newProbeMemory()): Probe {
  const { unpausable, paths, versions } = memory
  return async (target, now) => {
    const sentAt = now()
    const problem = await problemOf(origin, target, log)
    if (problem === 'gateway_limit') return null
    if (problem !== null) {
      unpausable.delete(target.url)
      paths.delete(target.url)
      versions.delete(target.url)
    }
    const [scraped, paused, version] =
      problem === null
        ? await Promise.all([
            scrape({ origin, log, paths }, target),
            isPaused(origin, target, unpausable),
            versionOf(origin, target, versions),
          ])
        : [null, false, null]
    const signal: ProbeSignal = {
      kind: 'probe',
      engine: target.id,
      at: now(),
      sentAt,
      healthy: problem === null,
      asleep: paused || (scraped?.asleep ?? false),
      stats: scraped?.stats ?? null,
      ...(problem === null ? {} : { problem }),
      ...(version === null ? {} : { version }),
    }
    return signal
  }
}

/**
 * Any response counts as healthy unless it reports a failure: an engine without the route, or behind a key, serves
 * requests all the same. null: healthy. `gateway_limit`: the gateway was out of file descriptors.
 */
async function problemOf(origin: Origin, target: EngineTarget, log: Log): Promise<string | null> {
  try {
    const answer = await get(origin, target, '/health')
    await answer.read(HEALTH_BYTES)
    return answer.status < 500 ? null : `status_${answer.status}`
  } catch (error) {
    log.debug('probe_health_failed', { engine: target.id, error })
    return error instanceof OriginError ? error.failure : 'reset'
  }
}

/** Versions of engines consist of these characters; a longer text is none. */
const VERSION_PATTERN = /"version": ?"([\w.+-]{1,40})"/

/** Requested once, until the engine fails. null: the engine does not report it. */
async function versionOf(
  origin: Origin,
  target: EngineTarget,
  versions: ProbeMemory['versions'],
): Promise<string | null> {
  const known = versions.get(target.url)
  if (known !== undefined) return known
  try {
    const answer = await get(origin, target, '/version', VERSION_MS)
    const body = new TextDecoder().decode(await answer.read(HEALTH_BYTES))
    const version = answer.status === 200 ? (VERSION_PATTERN.exec(body)?.[1] ?? null) : null
    if (answer.status < 500) versions.set(target.url, version)
    return version
  } catch {
    return null
  }
}

interface ScrapeContext {
  readonly origin: Origin
  readonly log: Log
  readonly paths: Map<string, string>
}

/**
 * Reads `/metrics`, or the second path if `/metrics` is missing or JSON. Only the first probe asks for both, because
 * each read of the JSON removes records that another reader needs.
 */
async function scrape({ origin, log, paths }: ScrapeContext, target: EngineTarget): Promise<EngineScrape | null> {
  try {
    const known = paths.get(target.url)
    const first = await metricsAt(origin, target, known ?? '/metrics')
    if (known !== undefined || first.scraped !== null) return first.scraped
    if (!first.isOther) return null
    const second = await metricsAt(origin, target, SECOND_METRICS_PATH)
    paths.set(target.url, second.status === 200 ? SECOND_METRICS_PATH : '/metrics')
    return second.scraped
  } catch (error) {
    log.debug('probe_metrics_failed', { engine: target.id, error })
    return null
  }
}

interface MetricsAnswer {
  readonly scraped: EngineScrape | null
  readonly status: number
  /** The path does not exist, or it is JSON. */
  readonly isOther: boolean
}

async function metricsAt(origin: Origin, target: EngineTarget, path: string): Promise<MetricsAnswer> {
  const answer = await get(origin, target, path)
  const text = new TextDecoder().decode(await answer.read(METRICS_BYTES))
  const isJson = answer.status === 200 && /^\s*[[{]/.test(text)
  return {
    scraped: answer.status === 200 && !isJson ? readEngineMetrics(text) : null,
    status: answer.status,
    isOther: isJson || answer.status === 404,
  }
}

/**
 * vLLM's development mode has `/pause`. A paused engine looks healthy in its health check and metrics, and requests
 * hang; only `/is_paused` shows it. Engines without the route are not asked again.
 */
async function isPaused(origin: Origin, target: EngineTarget, unpausable: Set<string>): Promise<boolean> {
  if (unpausable.has(target.url)) return false
  try {
    const answer = await get(origin, target, '/is_paused', PAUSED_MS)
    const body = new TextDecoder().decode(await answer.read(HEALTH_BYTES))
    if (answer.status >= 400 && answer.status < 500) unpausable.add(target.url)
    return /"is_paused": ?true/.test(body)
  } catch {
    return false
  }
}

function get(origin: Origin, target: EngineTarget, path: string, firstByteMs = ANSWER_MS): Promise<OriginAnswer> {
  return origin.send({
    target,
    method: 'GET',
    path,
    headers: ['accept-encoding', 'identity'],
    body: null,
    connectMs: CONNECT_MS,
    firstByteMs,
    signal: new AbortController().signal,
  })
}
