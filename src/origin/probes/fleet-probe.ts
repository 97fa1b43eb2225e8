/** Probes the engines of all pools when they are due, and reports the results to pool state. */
import { sharedProbeMs, SICK_PROBE_MS } from '../../core/pool/pool-engines/probe-intervals.ts'
import type { Ports } from '../../ports.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { Probe, ProbeSignal } from '../../ports/probe.ts'
import type { DigestCache } from '../digests/digest-cache.ts'
import { engineProbe, forgetContext, newProbeMemory, type ProbeMemory } from './engine-probe.ts'
import { knownEngines } from '../known-engines.ts'
import { type TrialParts, tryEngine } from './engine-trial.ts'
import { poolOf, type PoolRoute } from '../pool-route.ts'
import { reportPoolEvents } from '../pool-alerts.ts'
import { serverOf, targetOf } from '../rank-targets.ts'
import { IdleEngines } from './idle-engines.ts'
import { ReachablePools } from './reachable-pools.ts'

/** Tolerance, ms, because rounds start by a timer. */
const TOLERANCE_MS = 25

/**
 * Probes that start in one turn. If a fleet is down, all refusals of a turn arrive together and would delay other
 * work.
 */
const PROBES_PER_TURN = 10

/** Consecutive rounds without a region digest after which a gateway gets no requests. */
const MAX_MISSES = 3

interface ProbeTarget {
  /** Key in `dueAt`. */
  readonly key: string
  readonly route: PoolRoute
  readonly target: EngineTarget
}

interface FleetProbeOptions {
  /** Refreshes the digests of other gateways. */
  readonly digests: Pick<DigestCache, 'refresh'>
  /** Name of this deployment in `via`. */
  readonly via: string
  /** Times of the probe under the previous configuration, so that only new engines are due at once. */
  readonly dueAt?: Map<string, number>
}

/** Interval of looks at the pools whose state is in this process, ms. */
const WATCH_MS = 100

/** Reports the health of engines to pool states. The owner of a timer calls `round`. */
export class FleetProbe {
  readonly #engines: readonly ProbeTarget[]
  readonly #routes: readonly PoolRoute[]
  readonly #idle: readonly IdleEngines[]
  #watchedAt = -Infinity
  readonly #reachable: ReachablePools
  readonly #ports: Ports
  readonly #digests: FleetProbeOptions['digests']
  readonly #trial: TrialParts
  readonly #probe: Probe
  readonly #memory: ProbeMemory
  /** Gateway → consecutive rounds without an answer. */
  readonly #missed = new Map<string, number>()
  /** Engine (by pool) → time of the next probe; Infinity during the probe of one that was healthy. Absent: now. */
  readonly dueAt: Map<string, number>
  /** Engines whose last probe failed: probes that hang must not delay the one that finds them healthy. */
  readonly #failing = new Set<string>()
  /** Engine (by pool) → when its last good probe was sent. What was sent earlier shows an earlier state. */
  readonly #goodAt = new Map<string, number>()

  constructor(routes: readonly PoolRoute[], ports: Ports, { digests, via, dueAt = new Map() }: FleetProbeOptions) {
    this.#engines = routes.flatMap((route) =>
      // Each request to a provider may cost money, and its health is no measure of a model's.
      Array.from(route.targets.values(), (target) => ({ key: keyOf(route, target), route, target })).filter(
        ({ target }) => target.kind !== 'provider',
      ),
    )
    this.#routes = routes
    this.#idle = routes.flatMap((route) => (route.pool.sleep == null ? [] : [new IdleEngines(ports, route)]))
    this.#ports = ports
    this.#digests = digests
    this.#trial = { origin: ports.origin, log: ports.log, now: ports.now, timers: ports.timers, via }
    this.#reachable = new ReachablePools(ports)
    this.#memory = newProbeMemory(knownEngines(ports.origin))
    this.#probe = engineProbe(ports.origin, ports.log, this.#memory)
    this.dueAt = dueAt
    const keys = new Set(this.#engines.map(({ key }) => key))
    for (const key of dueAt.keys()) if (!keys.has(key)) dueAt.delete(key)
  }

  /** Probes the engines that are due: each once per `statsIntervalMs`, failed and shared ones sooner. Never rejects. */
  async round(): Promise<void> {
    this.#watch()
    for (const idle of this.#idle) void idle.round()
    const probes: Promise<void>[] = []
    for (const engine of this.#takeDue()) {
      if (probes.length > 0 && probes.length % PROBES_PER_TURN === 0) await this.#ports.yieldToEventLoop?.()
      probes.push(this.#probeOne(engine))
    }
    await Promise.all(probes)
  }

  /** Makes an engine due in the next round after a request failed on it. */
  probeSoon(route: PoolRoute, target: EngineTarget): void {
    const server = serverOf(target)
    forgetContext(this.#memory, server)
    const key = keyOf(route, server)
    if (this.dueAt.get(key) !== Infinity && !this.#failing.has(key)) this.dueAt.set(key, 0)
  }

  /** Sends the trials that pools ask for, and logs their events. */
  #watch(): void {
    const now = this.#ports.now()
    if (now - this.#watchedAt < WATCH_MS) return
    this.#watchedAt = now
    for (const route of this.#routes) {
      const { cluster, pool } = route
      const watch = poolOf(this.#ports, route).local?.watch()
      if (watch === undefined) continue
      reportPoolEvents(this.#ports, { cluster: cluster.id, pool: pool.model }, watch.events)
      for (const { engine, limitMs } of watch.trials) {
        const target = targetOf(route.targets, engine)
        if (target !== undefined) void this.#try(route, target, limitMs)
      }
    }
  }

  /** Asks an engine for one token, and for its health and load. */
  async #try(route: PoolRoute, target: EngineTarget, limitMs: number): Promise<void> {
    const { cluster, pool } = route
    this.probeSoon(route, target)
    const sentAt = this.#ports.now()
    try {
      const result = await tryEngine(this.#trial, target, limitMs)
      const signal = { kind: 'trial', engine: target.id, sentAt, result } as const
      await poolOf(this.#ports, route).observe([signal])
    } catch (error) {
      this.#ports.log.warn('observe_failed', { cluster: cluster.id, pool: pool.model, error })
    }
  }

  /** Returns the due engines and marks them as being probed. */
  #takeDue(): readonly ProbeTarget[] {
    const soon = this.#ports.now() + TOLERANCE_MS
    const due = this.#engines.filter(({ key }) => (this.dueAt.get(key) ?? 0) <= soon)
    for (const { key, target } of due) {
      const overlaps = this.#failing.has(key) && target.kind !== 'gateway'
      this.dueAt.set(key, overlaps ? this.#ports.now() + SICK_PROBE_MS : Infinity)
    }
    return due
  }

  /**
   * Signals of one probe. A gateway reports its engines in its digest, and itself by answering. Empty: it did not
   * answer, which is no signal yet.
   */
  async #signalsOf({ key, route, target }: ProbeTarget): Promise<readonly ProbeSignal[]> {
    const now = () => this.#ports.now()
    if (target.kind !== 'gateway') {
      const signal = await this.#probe(target, now)
      return signal === null ? [] : [signal]
    }
    const answers = await this.#digests.refresh(route)
    const before = this.#missed.get(key) ?? 0
    this.#missed.set(key, answers ? 0 : before + 1)
    if (!answers && before + 1 < MAX_MISSES) return []
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
  async #probeOne(engine: ProbeTarget): Promise<void> {
    const { key, route } = engine
    const { cluster, pool } = route
    const startedAt = this.#ports.now()
    const signals = await this.#signalsOf(engine)
    const isUnhealthy = signals.at(-1)?.healthy !== true
    if (isUnhealthy && startedAt < (this.#goodAt.get(key) ?? -Infinity)) return
    if (!isUnhealthy) {
      this.#goodAt.set(key, startedAt)
      this.#failing.delete(key)
    } else if (signals.length > 0) this.#failing.add(key)
    // The next one has been planned, or is under way.
    const isPlanned = isUnhealthy && this.dueAt.get(key) !== Infinity
    if (!isPlanned)
      this.#probeAgain(key, startedAt + Math.min(isUnhealthy ? SICK_PROBE_MS : Infinity, pool.statsIntervalMs))
    if (signals.length === 0) return
    this.#reachable.checked(route, signals.at(-1)!)
    try {
      const shared = await poolOf(this.#ports, route).observe(signals)
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
