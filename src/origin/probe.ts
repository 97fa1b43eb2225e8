/** Asks engines how they are: `/health`, then `/metrics`, and `/is_paused` of those that have it. */
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
import type { DigestCache } from './digest-cache.ts'
import type { PoolRoute } from './exchange.ts'
import { readEngineMetrics, type ScrapedEngine } from './metrics-text.ts'

/** A healthy engine answers in milliseconds even under full load: its HTTP server is a process of its own. */
const CONNECT_MS = 2_000
const ANSWER_MS = 5_000
/** An engine in a long step says late whether it is paused; one that is has nothing else to do. */
const PAUSED_MS = 1_000
const HEALTH_BYTES = 64 * 1024
/** A vLLM engine's metrics are about 100 KB; with many adapters more. */
const METRICS_BYTES = 4 * 1024 * 1024

/**
 * Probes over the same pipe as requests: same keys, same bindings, same connections. Never rejects.
 * @param unpausable where it remembers the engines (by URL) that say nothing of pauses, until their next illness: a
 * restarted engine may be another one.
 */
export function engineProbe(origin: Origin, log: Log, unpausable = new Set<string>()): Probe {
  return async (target, now) => {
    const healthy = await isHealthy(origin, target, log)
    if (healthy === null) return null
    if (!healthy) unpausable.delete(target.url)
    const [scraped, paused] = healthy
      ? await Promise.all([scrape(origin, target, log), isPaused(origin, target, unpausable)])
      : [null, false]
    const signal: ProbeSignal = {
      kind: 'probe',
      engine: target.id,
      at: now(),
      healthy,
      asleep: paused || (scraped?.asleep ?? false),
      stats: scraped?.stats ?? null,
    }
    return signal
  }
}

/** An engine that failed its last probe is asked again this soon, so that it is back in use soon after it is back. */
const SICK_EVERY_MS = 1_000
/** Rounds come by a timer: what is due within this is due. */
const EARLY_MS = 50

/**
 * Probes that begin in one turn: all the refusals of a fleet that is down would come in one, too, and hold up
 * everybody else.
 */
const AT_ONCE = 10

/**
 * A gateway that does not say so many times in a row what it expects is given no requests: there may be nobody else,
 * and it may be well.
 */
const MISSES = 3

interface Probed {
  /** Of `dueAt`. */
  readonly key: string
  readonly route: PoolRoute
  readonly target: EngineTarget
}

export interface FleetProbeOptions {
  /** What other gateways expect is asked anew. */
  readonly digests: Pick<DigestCache, 'refresh'>
  /** Of the one before it: under a new configuration, which every change of addresses is, only who is new is due. */
  readonly dueAt?: Map<string, number>
}

/** Keeps the cluster objects told of their engines' health. Whoever owns a timer calls `round`. */
export class FleetProbe {
  readonly #engines: readonly Probed[]
  readonly #ports: Ports
  readonly #digests: FleetProbeOptions['digests']
  readonly #probe: Probe
  /** Gateway → questions in a row that it did not answer. */
  readonly #missed = new Map<string, number>()
  /** Engine (by pool) → when it is due; Infinity while it is being asked. Absent: now. */
  readonly dueAt: Map<string, number>

  constructor(routes: readonly PoolRoute[], ports: Ports, { digests, dueAt = new Map() }: FleetProbeOptions) {
    this.#engines = routes.flatMap((route) =>
      Array.from(route.targets.values(), (target) => ({ key: keyOf(route, target), route, target })),
    )
    this.#ports = ports
    this.#digests = digests
    this.#probe = engineProbe(ports.origin, ports.log)
    this.dueAt = dueAt
    const keys = new Set(this.#engines.map(({ key }) => key))
    for (const key of dueAt.keys()) if (!keys.has(key)) dueAt.delete(key)
  }

  /** Probes the engines that are due: each once every `statsIntervalMs`, sick ones sooner. Never rejects. */
  async round(): Promise<void> {
    const asked: Promise<void>[] = []
    for (const engine of this.#takeDue()) {
      if (asked.length > 0 && asked.length % AT_ONCE === 0) await this.#ports.yieldToEventLoop?.()
      asked.push(this.#ask(engine))
    }
    await Promise.all(asked)
  }

  /** A request failed on this engine: what it is worth is to be known by the next round. */
  suspect(route: PoolRoute, target: EngineTarget): void {
    const key = keyOf(route, target)
    if (this.dueAt.get(key) !== Infinity) this.dueAt.set(key, 0)
  }

  /** Those that are due, and from now on being asked. */
  #takeDue(): readonly Probed[] {
    const soon = this.#ports.now() + EARLY_MS
    const due = this.#engines.filter(({ key }) => (this.dueAt.get(key) ?? 0) <= soon)
    for (const { key } of due) this.dueAt.set(key, Infinity)
    return due
  }

  /**
   * A gateway says of its engines what it expects of them; of itself, that it answers. Empty: it did not, which says
   * nothing yet.
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
    // Its circuit may have opened for what it was away.
    return answers && before > 0 ? [{ ...signal, healthy: false }, signal] : [signal]
  }

  /** Told as soon as it is known: an engine that hangs must not hold back the news of the others. */
  async #ask(engine: Probed): Promise<void> {
    const { key, route } = engine
    const { cluster, pool } = route
    const startedAt = this.#ports.now()
    const signals = await this.#signalsOf(engine)
    const sick = signals.at(-1)?.healthy !== true
    // It may be gone by now.
    if (this.dueAt.has(key))
      this.dueAt.set(key, startedAt + (sick ? Math.min(SICK_EVERY_MS, pool.statsIntervalMs) : pool.statsIntervalMs))
    if (signals.length === 0) return
    try {
      await this.#ports.cluster(cluster.id, pool.model).observe(signals)
    } catch (error) {
      this.#ports.log.warn('observe_failed', { cluster: cluster.id, pool: pool.model, error })
    }
  }
}

const keyOf = ({ cluster, pool }: PoolRoute, target: EngineTarget): string =>
  JSON.stringify([cluster.id, pool.model, pool.statsIntervalMs, target])

/**
 * What answers at all is up, unless it says that it failed: an engine without the route, or behind a key, serves
 * nonetheless.
 * null: the gateway had no descriptor to ask with.
 */
async function isHealthy(origin: Origin, target: EngineTarget, log: Log): Promise<boolean | null> {
  try {
    const answer = await get(origin, target, '/health')
    await answer.read(HEALTH_BYTES)
    return answer.status < 500
  } catch (error) {
    log.debug('probe_health_failed', { engine: target.id, error })
    return error instanceof OriginError && error.failure === 'gateway_limit' ? null : false
  }
}

async function scrape(origin: Origin, target: EngineTarget, log: Log): Promise<ScrapedEngine | null> {
  try {
    const answer = await get(origin, target, '/metrics')
    const body = await answer.read(METRICS_BYTES)
    return answer.status === 200 ? readEngineMetrics(new TextDecoder().decode(body)) : null
  } catch (error) {
    log.debug('probe_metrics_failed', { engine: target.id, error })
    return null
  }
}

/**
 * vLLM's development mode has `/pause`. A paused engine looks well in its health and its metrics and lets requests
 * hang;
 * only this tells. Elsewhere the route is missing, and is not asked for again.
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
