/** Probes engines: `/health`, then `/metrics`, `/version` once, and `/is_paused` where it exists. */
import {
  type EngineTarget,
  type Log,
  type Origin,
  type OriginAnswer,
  OriginError,
  type Ports,
  type Probe,
  type ProbeSignal,
} from '../ports.ts'
import { sharedProbeMs } from '../core/pool/foreign-load.ts'
import type { DigestCache } from './digest-cache.ts'
import type { PoolRoute } from './exchange.ts'
import { SECOND_METRICS_PATH } from './engine-metrics.ts'
import { readEngineMetrics, type ScrapedEngine } from './metrics-text.ts'

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
export interface ProbeMemory {
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

/** Interval, ms, after a failed probe, so that a recovered engine is used soon. */
const SICK_EVERY_MS = 1_000
/** Tolerance, ms, because rounds start by a timer. */
const EARLY_MS = 25

/**
 * Probes that start in one turn. If a fleet is down, all refusals of a turn arrive together and would delay other
 * work.
 */
const AT_ONCE = 10

/** Consecutive rounds without a region digest after which a gateway gets no requests. */
const MISSES = 3

interface Probed {
  /** Key in `dueAt`. */
  readonly key: string
  readonly route: PoolRoute
  readonly target: EngineTarget
}

export interface FleetProbeOptions {
  /** Refreshes the digests of other gateways. */
  readonly digests: Pick<DigestCache, 'refresh'>
  /** Times of the probe under the previous configuration, so that only new engines are due at once. */
  readonly dueAt?: Map<string, number>
}

/** Reports the health of engines to the cluster objects. The owner of a timer calls `round`. */
export class FleetProbe {
  readonly #engines: readonly Probed[]
  readonly #ports: Ports
  readonly #digests: FleetProbeOptions['digests']
  readonly #probe: Probe
  /** Gateway → consecutive rounds without an answer. */
  readonly #missed = new Map<string, number>()
  /** Engine (by pool) → time of the next probe; Infinity during a probe. Absent: now. */
  readonly dueAt: Map<string, number>

  constructor(routes: readonly PoolRoute[], ports: Ports, { digests, dueAt = new Map() }: FleetProbeOptions) {
    this.#engines = routes.flatMap((route) =>
      // Each request to a provider may cost money, and its health is no measure of a model's.
      Array.from(route.targets.values(), (target) => ({ key: keyOf(route, target), route, target })).filter(
        ({ target }) => target.external === undefined,
      ),
    )
    this.#ports = ports
    this.#digests = digests
    this.#probe = engineProbe(ports.origin, ports.log)
    this.dueAt = dueAt
    const keys = new Set(this.#engines.map(({ key }) => key))
    for (const key of dueAt.keys()) if (!keys.has(key)) dueAt.delete(key)
  }

  /** Probes the engines that are due: each once per `statsIntervalMs`, failed and shared ones sooner. Never rejects. */
  async round(): Promise<void> {
    const asked: Promise<void>[] = []
    for (const engine of this.#takeDue()) {
      if (asked.length > 0 && asked.length % AT_ONCE === 0) await this.#ports.yieldToEventLoop?.()
      asked.push(this.#ask(engine))
    }
    await Promise.all(asked)
  }

  /** Makes an engine due in the next round after a request failed on it. */
  suspect(route: PoolRoute, target: EngineTarget): void {
    const key = keyOf(route, target)
    if (this.dueAt.get(key) !== Infinity) this.dueAt.set(key, 0)
  }

  /** Returns the due engines and marks them as being probed. */
  #takeDue(): readonly Probed[] {
    const soon = this.#ports.now() + EARLY_MS
    const due = this.#engines.filter(({ key }) => (this.dueAt.get(key) ?? 0) <= soon)
    for (const { key } of due) this.dueAt.set(key, Infinity)
    return due
  }

  /**
   * Signals of one probe. A gateway reports its engines in its digest, and itself by answering. Empty: it did not
   * answer, which is no signal yet.
   */
  async #signalsOf({ key, route, target }: Probed): Promise<readonly ProbeSignal[]> {
    const now = () => this.#ports.now()
    if (target.isGateway !== true) {
      const signal = await this.#probe(target, now)
      return signal === null ? [] : [signal]
    }
    const answers = await this.#digests.refresh(route)
    const before = this.#missed.get(key) ?? 0
    this.#missed.set(key, answers ? 0 : before + 1)
    if (!answers && before + 1 < MISSES) return []
    const signal: ProbeSignal = {
      kind: 'probe',
      engine: target.id,
      at: now(),
      healthy: answers,
      asleep: false,
      stats: null,
    }
    // Its circuit may have opened while it was unreachable, so it is reported as recovered.
    return answers && before > 0 ? [{ ...signal, healthy: false }, signal] : [signal]
  }

  /** Reports each result at once, so that a hanging engine does not delay the others. */
  async #ask(engine: Probed): Promise<void> {
    const { key, route } = engine
    const { cluster, pool } = route
    const startedAt = this.#ports.now()
    const signals = await this.#signalsOf(engine)
    const sick = signals.at(-1)?.healthy !== true
    this.#probeAgain(key, startedAt + Math.min(sick ? SICK_EVERY_MS : Infinity, pool.statsIntervalMs))
    if (signals.length === 0) return
    try {
      const shared = await this.#ports.cluster(cluster.id, pool.model).observe(signals)
      if (shared.length === 0) return
      this.#probeAgain(key, startedAt + Math.min(sharedProbeMs(this.#engines.length), pool.statsIntervalMs))
    } catch (error) {
      this.#ports.log.warn('observe_failed', { cluster: cluster.id, pool: pool.model, error })
    }
  }

  #probeAgain(key: string, at: number): void {
    // The engine may have been removed, or be due because a request failed on it.
    if (this.dueAt.has(key)) this.dueAt.set(key, at)
  }
}

const keyOf = ({ cluster, pool }: PoolRoute, target: EngineTarget): string =>
  JSON.stringify([cluster.id, pool.model, pool.statsIntervalMs, target])

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
const VERSION_TEXT = /"version": ?"([\w.+-]{1,40})"/

/** Asked once, until the engine fails. null: it does not say. */
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
    const version = answer.status === 200 ? (VERSION_TEXT.exec(body)?.[1] ?? null) : null
    if (answer.status < 500) versions.set(target.url, version)
    return version
  } catch {
    return null
  }
}

interface Scraping {
  readonly origin: Origin
  readonly log: Log
  readonly paths: Map<string, string>
}

/**
 * Reads `/metrics`, or the second path if `/metrics` is missing or JSON. Only the first probe asks for both, because
 * each read of the JSON removes records that another reader expects.
 */
async function scrape({ origin, log, paths }: Scraping, target: EngineTarget): Promise<ScrapedEngine | null> {
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
  readonly scraped: ScrapedEngine | null
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
