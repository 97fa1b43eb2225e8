import type { Arrivals } from '../../capacity/arrivals.ts'
import type { EngineSignal, EngineStats } from '../../contract/engine-signal.ts'
import { type CircuitConfig, type EngineSpec, isOpaque, type PoolConfig } from '../../contract/pool-config.ts'
import type { EngineDigest, HurtRequests, PoolDigest } from '../../contract/pool-digest.ts'
import type { EngineEstimate } from '../../contract/region-digest.ts'
import type { KvEventDelta, KvEventDeltaState } from '../../kv-events/event-delta.ts'
import { AdapterServers } from './adapter-servers.ts'
import * as circuits from './circuit.ts'
import type { CircuitSignal } from './circuit.ts'
import { ejectionLimit, type LimitedPool, mayTakeOut } from './ejection-limits.ts'
import { unavailability } from '../decision/eligibility.ts'
import { engineDigest } from '../engine-digest.ts'
import type { EngineState } from './engine-state.ts'
import { EngineTable } from './engine-table.ts'
import type { Booking, Bookings } from '../bookings.ts'
import { affectedBy } from '../condition/affected-requests.ts'
import type { TrialSignal } from '../condition/engine-trials.ts'
import { EngineWatch, type TrialOrder } from '../condition/engine-watch.ts'
import { CanaryResults } from '../canary-results.ts'
import type { BookedLoad } from './booked-load.ts'
import { paused } from './engine-pause.ts'
import { poolCapacity, statedRate } from '../pool-capacity.ts'
import type { PoolEvents } from '../pool-events.ts'
import { RankServers } from './rank-servers.ts'
import { supportsRole } from '../decision/roles.ts'
import { engineSnapshot, type EngineSnapshot } from '../snapshot.ts'

/** Time after a failed trial of the gateway in which requests are no trials, ms: the next one comes sooner. */
const OWN_TRIALS_MS = 3_000

/** Requests of one trial, which an engine counts like those of other sources. */
const TRIAL_REQUESTS = 2

/** Origin of a result for a circuit. */
interface BookingAttempt {
  readonly booking: Booking
  readonly now: number
  /** The connection failed, which no request can cause. */
  readonly isUnreachable?: boolean
  /** The connection failed or ended, so all ranks of a server are affected. */
  readonly isOfServer?: boolean
  /** Another rank counts it. */
  readonly isOfRank?: boolean
}

/** Whether neither another replica nor another rank counts it. */
const isCounted = ({ booking, isOfRank }: BookingAttempt): boolean => !booking.isOfPeer && isOfRank !== true

type ProbeReport = Extract<EngineSignal, { readonly kind: 'probe' }>

/** Engines of a pool: membership, health and circuits. A removed engine stays until its last booking ends. */
export class PoolEngines {
  readonly table = new EngineTable()
  readonly #booked: BookedLoad
  readonly #bookings: Pick<Bookings, 'get' | 'waitingAt' | 'fence'>
  readonly #events: PoolEvents
  readonly #watch: EngineWatch
  readonly #ranks: RankServers
  readonly adapters: AdapterServers
  #pool: PoolConfig | null = null
  #circuit: CircuitConfig = { failures: 1, openMs: 0 }
  /** null: answers are not compared. */
  #canary: CanaryResults | null = null

  constructor(booked: BookedLoad, events: PoolEvents, bookings: Pick<Bookings, 'get' | 'waitingAt' | 'fence'>) {
    this.#booked = booked
    this.#bookings = bookings
    this.adapters = new AdapterServers(this.table, booked.ledger)
    this.#events = events
    this.#ranks = new RankServers({
      events,
      servedBy: (engine) => this.table.get(engine)?.servedTotal ?? 0,
    })
    this.#watch = new EngineWatch({
      engines: () => this.table.all(),
      events,
      expected: (engine, now) => booked.ledger.expected(engine, now),
      mayTakeOut: (engine) => mayTakeOut(engine, this.#limited),
      hurt: (engine) => this.#hurtAt(engine),
      recovered: booked.ledger.recovered,
    })
  }

  /** Judges the condition of the engines. Cheap if it was done a moment ago. */
  look(now: number): void {
    this.#watch.look(now)
  }

  /** Returns the trials that are due, which count as sent. */
  watch(now: number): readonly TrialOrder[] {
    return this.#watch.watch(now)
  }

  /** Whether the output of an engine is overdue and nothing moves. */
  get isSick(): boolean {
    return this.table.all().some(({ isSuspect }) => isSuspect)
  }

  /** Records that another engine got a request that waited at this one. */
  rescued(id: string): void {
    const engine = this.table.get(id)
    if (engine !== undefined) engine.rescuedTotal += 1
  }

  /**
   * Whether requests that wait at the engine should go to another one. An engine whose health check fails is not tried:
   * there, overdue output is enough.
   */
  isStuck(id: string, now: number): boolean {
    const engine = this.table.get(id)
    if (engine?.condition.condition !== 'unreachable') return engine?.condition.condition === 'wedged'
    const { isLearned } = this.#booked.ledger.expected(engine, now)
    return engine.owed.overdueSince(engine.movedAt, { now, isLearned }) !== null
  }

  /** Whether the request of a booking is lost at an engine that answers trials, or whose trial takes long. */
  isLost(id: string, key: string, now: number): boolean {
    const { owed = null, legs: [leg] = [] } = this.#bookings.get(key) ?? {}
    if (owed === null || leg?.engine.spec.id !== id) return false
    const { engine } = leg
    const { isLearned } = this.#booked.ledger.expected(engine, now)
    return engine.owed.isLost(owed, { now, isLearned }, engine.isSuspect)
  }

  /**
   * Applies a configuration: new engines join, known ones get their new spec, missing ones drain. A server with ranks
   * is as many engines.
   */
  adopt(given: PoolConfig, now: number): void {
    this.#pool = given
    const pool = this.#ranks.expand(given)
    this.#circuit = pool.circuit
    this.#adoptCanary(pool)
    for (const spec of pool.engines) {
      const known = this.table.get(spec.id)
      if (known !== undefined) known.spec = spec
    }
    this.#booked.load.configure(pool, this.table.all())
    this.#booked.ledger.configure(pool, this.table.all())
    const wanted = new Set(pool.engines.map(({ id }) => id))
    for (const engine of this.table.all()) {
      engine.removed = !wanted.has(engine.spec.id)
      this.#forgetIfGone(engine)
    }
    for (const spec of pool.engines) if (this.table.get(spec.id) === undefined) this.#add(spec, now)
    this.adapters.adopt(pool)
  }

  #adoptCanary({ canary = null }: PoolConfig): void {
    if (canary?.eject !== true) for (const engine of this.table.all()) engine.isQuarantined = false
    if (canary === null) return void (this.#canary = null)
    this.#canary ??= new CanaryResults({
      find: (id) => this.table.get(id),
      events: this.#events,
      mayTakeOut: (engine) => mayTakeOut(engine, this.#limited),
    })
    this.#canary.ejects = canary.eject
  }

  /**
   * Applies a probe or an operator's action, which for a server with ranks is one for each of them. It does not change
   * bookings: health is no evidence about live requests.
   */
  observe(signal: EngineSignal, now: number): void {
    if (!this.#ranks.isUsed) return this.#applied(signal, now)
    if (this.#pool !== null && this.#ranks.probed(signal, now)) {
      this.adopt(this.#pool, now)
      for (const drain of this.#ranks.drainsOf(signal.engine)) this.#applied(drain, now)
    }
    for (const one of this.#ranks.signalsOf(signal)) this.#applied(one, now)
  }

  #applied(signal: EngineSignal, now: number): void {
    this.#observe(signal, now)
    const engine = this.table.get(signal.engine)
    engine?.changes.observe(engine, now)
  }

  #observe(signal: EngineSignal, now: number): void {
    const engine = this.table.get(signal.engine)
    if (engine === undefined) return
    switch (signal.kind) {
      case 'drain':
        engine.draining = signal.draining
        engine.moveAt = signal.draining ? signal.moveAt : undefined
        return
      case 'pause':
        return paused(engine, signal, this.#booked.ledger, now)
      case 'excused':
        engine.circuit = circuits.excused(engine.circuit, signal.booking, now, signal.doubtful)
        return
      case 'fence':
        engine.isFenced = true
        engine.fencedAt = now
        return this.#bookings.fence(engine)
      case 'adapter':
        return engine.residents?.settled(signal.adapter, signal.loaded, now)
      case 'probe':
        return this.#probed(engine, signal, now)
      case 'trial':
        return this.#tried(engine, signal, now)
      case 'compared':
        return this.#canary?.compared(signal, now)
    }
  }

  #tried(engine: EngineState, signal: TrialSignal, now: number): void {
    this.#watch.tried(engine, signal, now)
    if (engine.circuit.state !== 'open') return
    if (signal.result === 'passed') engine.circuit = circuits.revived(engine.circuit, now)
    if (signal.result === 'failed') engine.circuit = circuits.postponed(engine.circuit, now + OWN_TRIALS_MS)
  }

  #probed(engine: EngineState, signal: ProbeReport, now: number): void {
    // A clock that is ahead must not make later reports look old.
    const at = Math.min(signal.at, now)
    const isLate = at < engine.probedAt
    engine.probedAt = Math.max(engine.probedAt, at)
    // The server of a busy engine may answer a check late, while its responses go on.
    if (signal.problem?.endsWith('_timeout') === true && engine.movedAt >= (signal.sentAt ?? Infinity)) return
    this.#slept(engine, signal.asleep, Math.min(signal.sentAt ?? at, at))
    if (isLate) return
    if (signal.healthy && !engine.healthy) {
      engine.circuit = circuits.revived(engine.circuit, now)
      this.#booked.ledger.revived(engine)
      this.#watch.restarted(engine, now)
    } else if (signal.healthy) engine.circuit = circuits.probedHealthy(engine.circuit, this.#circuit)
    engine.healthy = signal.healthy
    engine.problem = signal.problem
    if (signal.healthy) engine.reportedContextTokens = signal.contextTokens ?? engine.reportedContextTokens
    if (signal.healthy) engine.loadedAdapters = signal.adapters ?? null
    if (!signal.healthy) engine.residents?.restarted()
    else if (signal.adapters !== undefined) engine.residents?.reported(signal.adapters, now)
    engine.version = signal.version ?? (signal.healthy ? undefined : engine.version)
    if (signal.stats === null) return engine.reported.forget()
    const { work, ...value } = signal.stats
    engine.stats = { value, at }
    this.#booked.ledger.observed(engine, value, at)
    this.#reported(engine, work, at)
  }

  /** @param sentAt start of the check that found it asleep or awake */
  #slept(engine: EngineState, isAsleep: boolean, sentAt: number): void {
    if (sentAt < engine.sleepSeenAt) return
    engine.sleepSeenAt = sentAt
    const wasAsleep = engine.asleep
    engine.asleep = isAsleep && sentAt >= engine.resumedAt
    // Most engines drop their cache while they sleep.
    if (!wasAsleep || engine.asleep) return
    this.#booked.ledger.emptied(engine)
    this.#booked.ledger.revived(engine)
  }

  #reported(engine: EngineState, work: EngineStats['work'], at: number): void {
    const { running } = engine.stats!.value
    const stats = { running, ...(work === undefined ? {} : { work }) }
    const own = engine.isSuspect ? TRIAL_REQUESTS : 0
    engine.reported.observe({ stats, hasOthers: this.#booked.load.foreignRequests(engine, at) > own, at })
  }

  /** Whether the engine, or a rank of it, has also served other sources lately, or is silent. */
  changesSoon(id: string): boolean {
    return this.#ranks.engineIdsOf(id).some((one) => {
      const engine = this.table.get(one)
      return engine !== undefined && (engine.isSuspect || this.#booked.load.isShared(engine))
    })
  }

  feed(feeds: readonly KvEventDelta[], now: number): KvEventDeltaState[] {
    return feeds.map((feed) => {
      const engine = this.table.get(feed.engine)
      return engine === undefined ? 'unknown' : this.#booked.ledger.applyKvEvents(engine, feed, now)
    })
  }

  /** Records a decision for the engine: unless the circuit is closed, the booking may be a trial. */
  chosen(engine: EngineState, key: string): void {
    engine.requestsTotal += 1
    engine.circuit = circuits.booked(engine.circuit, key)
  }

  /** Counts a booking of the engine. */
  joined(engine: EngineState): void {
    engine.bookings += 1
  }

  judge(engine: EngineState, outcome: CircuitSignal, attempt: BookingAttempt): void {
    this.#judge(engine, outcome, attempt)
    const { server } = engine.spec
    if (server === undefined || attempt.isOfServer !== true) return
    for (const rank of this.table.all())
      if (rank !== engine && rank.spec.server === server) this.#judge(rank, outcome, { ...attempt, isOfRank: true })
  }

  #judge(engine: EngineState, outcome: CircuitSignal, attempt: BookingAttempt): void {
    const { booking, now } = attempt
    const { key, sentAt } = booking
    const { tenant } = booking.admission
    if (isCounted(attempt) && (outcome === 'failure' || outcome === 'truncated' || outcome === 'hung'))
      engine.failuresTotal += 1
    engine.circuit = circuits.judged(engine.circuit, outcome, {
      key,
      now,
      sentAt,
      // Without keys, clients cannot be distinguished.
      client: tenant === '' ? null : tenant,
      settings: this.#circuit,
      mayOpen: (client) => attempt.isUnreachable === true || this.#mayOpen(engine, client, attempt),
    })
  }

  #mayOpen(engine: EngineState, client: string | null, attempt: BookingAttempt): boolean {
    const hasAlternative = attempt.booking.admission.isLastResort !== true
    const limit = ejectionLimit(engine, this.#limited, { isOneClient: client !== null, hasAlternative })
    if (limit === null) return true
    if (isCounted(attempt)) {
      engine.ejectionsWithheld += 1
      this.#events.raise({ event: 'ejection_withheld', engine: engine.spec.id, limit }, attempt.now)
    }
    return false
  }

  get #limited(): LimitedPool {
    return { engines: this.table.all(), circuit: this.#circuit }
  }

  /** Counts the end of a booking of the engine. */
  left(engine: EngineState): void {
    engine.bookings -= 1
    this.#forgetIfGone(engine)
  }

  /** Digest with the last TTFTs, for the dashboard. */
  summary(now: number): EngineDigest[] {
    return this.table.all().map((engine) => ({ ...this.#digest(engine, now), recentTtftMs: [...engine.recentTtftMs] }))
  }

  digest(now: number): EngineDigest[] {
    return this.table.all().map((engine) => this.#digest(engine, now))
  }

  #digest(engine: EngineState, now: number): EngineDigest {
    const digest = engineDigest(engine, this.#booked, now)
    if (engine.condition.condition === 'well' && !engine.isTooSlow) return digest
    return { ...digest, hurt: this.#hurtAt(engine) }
  }

  #hurtAt(engine: EngineState): HurtRequests {
    return { ...affectedBy(this.#bookings.waitingAt(engine)), gaveUp: engine.abandoned.since(engine.wellAt) }
  }

  /** Longest prefill queue and highest KV cache use. null: no engine has reported. */
  gauges(now: number): { readonly queueS: number | null; readonly kvUsage: number | null } {
    let queueS: number | null = null
    let kvUsage: number | null = null
    for (const engine of this.table.all()) {
      if (isOpaque(engine.spec)) continue
      queueS = Math.max(queueS ?? 0, this.#booked.ledger.queuedPrefillS(engine, now))
      const reported = engine.statsAt(now)?.kvUsage ?? null
      if (reported !== null) kvUsage = Math.max(kvUsage ?? 0, reported)
    }
    return { queueS, kvUsage }
  }

  /** Capacity in terms of the pool's objective. `arrivals`: null: it has none. */
  capacity(arrivals: Arrivals | null, waiting: number, now: number): Pick<PoolDigest, 'capacity' | 'capacityError'> {
    if (arrivals === null || this.#pool === null) return {}
    this.stateCapacity(arrivals, now)
    const engines = this.table.all()
    const capacity = poolCapacity({ ...this.#booked, pool: this.#pool, engines, arrivals, waiting, now })
    const capacityError = arrivals.checks.error(now)
    return { ...(capacity === null ? {} : { capacity }), ...(capacityError === null ? {} : { capacityError }) }
  }

  /** States the capacity, if that is due, for the comparison with the requests that come. */
  stateCapacity(arrivals: Arrivals | null, now: number): void {
    if (arrivals === null || this.#pool === null || !arrivals.checks.isDue(now)) return
    const engines = this.table.all()
    const perS = statedRate({ ...this.#booked, pool: this.#pool, engines, arrivals, waiting: 0, now })
    arrivals.checks.stated(perS, now)
  }

  /** Estimates for a new prompt, of each engine that is available for prefill. */
  estimates(now: number): EngineEstimate[] {
    const { load, ledger } = this.#booked
    return this.table
      .all()
      .filter(
        (engine) =>
          supportsRole(engine.spec.role, 'prefill') &&
          !engine.isTooSlow &&
          unavailability(engine, load.digest(engine).requests, now) === null,
      )
      .map((engine) => ledger.estimate(engine, now))
  }

  snapshot(): EngineSnapshot[] {
    return this.table.all().map(engineSnapshot)
  }

  /** Restores a snapshot. Call after `adopt` and before the bookings are restored. */
  restore(snapshots: readonly EngineSnapshot[], now: number): void {
    if (this.#pool !== null && this.#ranks.restore(snapshots, this.#pool)) this.adopt(this.#pool, now)
    for (const { spec, changes = [], ...kept } of snapshots) {
      const engine = this.table.get(spec.id) ?? this.#add(spec, now)
      const circuit = circuits.restored(kept.circuit, now)
      Object.assign(engine, kept, {
        circuit,
        countedBefore: { requests: kept.requestsTotal, failures: kept.failuresTotal },
      })
      engine.changes.restore(changes, engine)
    }
  }

  /**
   * Call after the bookings were restored: lost trials no longer count, and removed engines without bookings are
   * deleted.
   */
  settle(known: (key: string) => boolean): void {
    for (const engine of this.table.all()) {
      engine.circuit = circuits.withTrials(engine.circuit, known)
      this.#forgetIfGone(engine)
    }
  }

  #add(spec: EngineSpec, now: number): EngineState {
    const { load, ledger } = this.#booked
    return this.table.add(spec, { load: load.engineLoad(spec), estimators: ledger.engineAdded(spec, now) })
  }

  #forgetIfGone(engine: EngineState): void {
    if (!engine.removed || engine.bookings > 0) return
    this.table.remove(engine)
    this.#booked.ledger.engineForgotten(engine)
  }
}
