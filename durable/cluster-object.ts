import { DurableObject } from 'cloudflare:workers'
import type { AdmissionResult, AdmitAnswer } from '../src/core/pool/admission-result.ts'
import { PoolState } from '../src/core/pool/pool-state.ts'
import type { Admission } from '../src/core/contract/admission.ts'
import type { PoolDigest, PoolSummary } from '../src/core/contract/pool-digest.ts'
import type { Decision } from '../src/core/contract/decision.ts'
import type { EngineSignal } from '../src/core/contract/engine-signal.ts'
import type { Outcome } from '../src/core/contract/outcome.ts'
import type { PoolConfig } from '../src/core/contract/pool-config.ts'
import type { Refusal } from '../src/core/contract/refusal.ts'
import type { Renewal } from '../src/core/contract/renewal.ts'
import type { Resume } from '../src/core/contract/resume.ts'
import type { CostAnswer } from '../src/core/cost/request-cost.ts'
import { applyEvent } from '../src/core/pool/apply-event.ts'
import type { BookingEvent } from '../src/core/contract/booking-event.ts'
import type { RegionDigest } from '../src/core/contract/region-digest.ts'
import { readAdmission, readPool, readResume } from '../src/core/contract/decode.ts'
import { SHARED_PROBE_MS, SICK_PROBE_MS } from '../src/core/pool/pool-engines/probe-intervals.ts'
import type { TrialOrder } from '../src/core/pool/condition/engine-watch.ts'
import { logFieldsOf, type PoolEvent } from '../src/core/pool/pool-events.ts'
import type { TrialVerdict } from '../src/ports/probe.ts'
import { bookingKey } from '../src/core/pool/bookings.ts'
import { WAKE_MS } from '../src/core/pool/queue/waiting-room.ts'
import type { KvEventDelta, KvEventDeltaState } from '../src/core/kv-events/event-delta.ts'
import type { RegistryAnswer, RegistryCall } from '../src/core/lmcache/registry-call.ts'
import type { PoolPort } from '../src/ports/pool.ts'
import { debugRouter } from './debug-router.ts'
import { SnapshotStore } from './snapshot-store.ts'
import { Alarm } from './alarm.ts'

/** Delay of a snapshot after the first change, milliseconds: a write per request would cost more than the request. */
const FLUSH_MS = 5_000
/** Interval of looks at the engines while some are silent, ms. */
const WATCH_MS = 500
/** Probe intervals without traffic after which probes stop. */
const TRAFFIC_INTERVALS = 3

const STORED_AT_ONCE: ReadonlySet<EngineSignal['kind']> = new Set(['drain', 'pause', 'fence'])

/**
 * One pool as a Durable Object: `PoolState` with transport, clock and storage. Class and objects keep the name of the
 * cluster, because another name would be another object. The state is in memory; a snapshot every few seconds lets
 * bookings of live streams survive an eviction. Expected results are returned, never thrown; `RemotePool` converts them
 * to the port's interface.
 */
export class ClusterObject<Env = Cloudflare.Env>
  extends DurableObject<Env>
  implements Pick<PoolPort, 'configure' | 'observe' | 'digest'>
{
  readonly #state: PoolState
  readonly #store: SnapshotStore
  readonly #router: ReturnType<typeof debugRouter>
  readonly #alarm: Alarm
  #changed = false
  #requestedAt = 0
  #probedAt = 0
  #firstProbe: Promise<void> | null = null
  #isTicking = false
  #isWatching = false
  #isSick = false
  /** Whether engines also serve other sources. */
  #isShared = false

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    this.#alarm = new Alarm(ctx.storage, () => this.now())
    this.#store = new SnapshotStore(ctx.storage)
    this.#state = this.#restoreState()
    this.#router = debugRouter(this)
    if (this.#state.bookings > 0) this.#alarm.by(this.now() + FLUSH_MS)
  }

  async configure(version: number, pool: PoolConfig): Promise<void> {
    if (this.#state.configure(version, readPool(pool), this.now())) this.#recordChange()
  }

  /** @param bookingEvents earlier booking events of the gateway, which are applied first */
  async admit(admission: Admission, bookingEvents: readonly BookingEvent[] = []): Promise<AdmitAnswer> {
    this.#recordTraffic()
    this.#receive(bookingEvents)
    const answer = this.#admitAnswer(this.#state.admit(readAdmission(admission), this.#requestedAt))
    this.#watch()
    return answer
  }

  /** Admits the request as soon as there is room. The open call keeps the object in memory. */
  wait(admission: Admission, waitedMs: number): Promise<AdmitAnswer> {
    this.#recordTraffic()
    return new Promise((resolve) => {
      const done = (answer: AdmissionResult): void => resolve(this.#admitAnswer(answer))
      this.#state.wait(readAdmission(admission), { now: this.#requestedAt, waitedMs, done })
      if (!this.#isTicking) this.#tick()
    })
  }

  async leave(key: string): Promise<void> {
    this.#state.leave(key, this.now())
    this.#recordChange()
  }

  /** Books again after an eviction; null: done. */
  async resume(booking: Resume): Promise<{ readonly refusal: Refusal } | null> {
    this.#recordTraffic()
    const result = this.#state.resume(readResume(booking), this.#requestedAt)
    if ('refusal' in result) return result
    this.#recordChange()
    return null
  }

  async tell(bookingEvents: readonly BookingEvent[]): Promise<void> {
    this.#receive(bookingEvents)
  }

  /** Renews a lease. false: unknown booking. Not an error, because the platform would log one as a crash. */
  async renew(key: string): Promise<Renewal> {
    const renewal = this.#state.renew(key, this.now())
    if (renewal !== false) this.#recordChange()
    return renewal
  }

  async rank(admission: Admission): Promise<{ readonly decision: Decision } | { readonly refusal: Refusal }> {
    return this.#state.rank(readAdmission(admission), this.now())
  }

  async observe(signals: readonly EngineSignal[]): Promise<readonly string[]> {
    const shared = this.#state.observe(signals, this.now())
    this.#recordChange()
    // An operator's action is stored before the response.
    if (signals.some(({ kind }) => STORED_AT_ONCE.has(kind))) {
      await this.#flush()
      await this.ctx.storage.sync()
    }
    return shared
  }

  async registry(call: RegistryCall): Promise<RegistryAnswer> {
    return this.#state.registry.call(call, this.now())
  }

  async feed(feeds: readonly KvEventDelta[]): Promise<KvEventDeltaState[]> {
    return this.#state.feed(feeds, this.now())
  }

  async digest(): Promise<PoolDigest> {
    this.#alarm.restoreIfLost()
    const { pool } = this.#state
    if (pool?.reportsAdapters === true) await this.#readAdapters(pool)
    return this.#state.digest(this.now())
  }

  async regionDigest(): Promise<RegionDigest> {
    return this.#state.regionDigest(this.now())
  }

  async costOf(key: string): Promise<CostAnswer> {
    return this.#state.costOf(key)
  }

  async explain(id: string): Promise<Decision | null> {
    return this.#state.explain(id)
  }

  async summary(decisions: number, historySince = 0): Promise<PoolSummary> {
    this.#alarm.restoreIfLost()
    return this.#state.summary(decisions, historySince, this.now())
  }

  /** Release for gateways older than `tell`. */
  async settle(booking: Pick<Admission, 'id' | 'attempt'>, outcome: Outcome): Promise<void> {
    this.#receive([['release', bookingKey(booking), outcome]])
  }

  override fetch(request: Request): Promise<Response> {
    return this.#router.fetch(request) as Promise<Response>
  }

  override async alarm(): Promise<void> {
    this.#alarm.fired()
    if (this.#state.expire(this.now()) > 0) this.#changed = true
    if (this.#changed) await this.#flush()
    this.#watch()
    const probing = this.#probeIfDue()
    // Set before the probes complete: a slow engine must not delay expiry.
    const next = this.#nextAlarmAt()
    if (next !== null) this.#alarm.by(next)
    await probing
  }

  protected now(): number {
    return Date.now()
  }

  protected random(): number {
    return Math.random()
  }

  /** Probes every engine. The object has neither addresses nor secrets: the entry point overrides this. */
  protected async probe(_pool: PoolConfig): Promise<readonly EngineSignal[]> {
    return []
  }

  /** Asks an engine for one token. null: the object cannot, because it has no addresses. */
  protected async tryEngine(_pool: PoolConfig, _order: TrialOrder): Promise<TrialVerdict | null> {
    return null
  }

  /** Alerts the operator. The object has no configuration: the entry point overrides this. Never rejects. */
  protected async alert(_pool: PoolConfig, _events: readonly PoolEvent[]): Promise<void> {}

  /** Sends the trials that are due, and watches again soon while engines are silent. */
  #watch(): void {
    const { pool } = this.#state
    if (pool === null) return
    const { trials, events, isSick } = this.#state.watch(this.now())
    const { cluster, pool: model } = pool
    for (const raised of events)
      console.warn(JSON.stringify({ event: raised.event, object: 'cluster', cluster, model, ...logFieldsOf(raised) }))
    if (events.length > 0) void this.alert(pool, events)
    for (const order of trials) void this.#try(pool, order)
    this.#isSick = isSick
    if (isSick) void this.#probeIfDue()
    if (!isSick || this.#isWatching || !this.#hasTraffic(pool, this.now())) return
    this.#isWatching = true
    setTimeout(() => {
      this.#isWatching = false
      this.#watch()
    }, WATCH_MS)
  }

  async #try(pool: PoolConfig, order: TrialOrder): Promise<void> {
    const sentAt = this.now()
    try {
      const result = await this.tryEngine(pool, order)
      if (result === null) return
      this.#state.observe([{ kind: 'trial', engine: order.engine, sentAt, result }], this.now())
      this.#watch()
    } catch (error) {
      logError('trial_failed', error)
    }
  }

  /** Restores the snapshot. An unreadable one is ignored: gateways resume live bookings. */
  #restoreState(): PoolState {
    const parts = { random: () => this.random(), epoch: crypto.randomUUID() }
    try {
      const state = new PoolState(parts)
      const snapshot = this.#store.load()
      if (snapshot !== null) state.restore(snapshot, this.now())
      return state
    } catch (error) {
      logError('snapshot_unreadable', error)
      return new PoolState(parts)
    }
  }

  /** Probes without traffic, because names that clients may request come from probes. Waits for the first one. */
  async #readAdapters(pool: PoolConfig): Promise<void> {
    const now = this.now()
    if (now >= this.#probeAt()) {
      const probing = this.#probeAll(pool, now)
      this.#firstProbe ??= probing
    }
    await this.#firstProbe
  }

  async #probeIfDue(): Promise<void> {
    const { pool } = this.#state
    const now = this.now()
    if (pool === null || !this.#hasTraffic(pool, now) || now < this.#probeAt()) return
    await this.#probeAll(pool, now)
  }

  /** Never rejects. */
  async #probeAll(pool: PoolConfig, now: number): Promise<void> {
    this.#probedAt = now
    try {
      const signals = await this.probe(pool)
      if (signals.length === 0) return
      this.#isShared = this.#state.observe(signals, this.now()).length > 0
      this.#recordChange()
    } catch (error) {
      logError('probe_failed', error)
    }
  }

  #hasTraffic(pool: PoolConfig, now: number): boolean {
    return (
      this.#state.bookings > 0 ||
      this.#state.waiting > 0 ||
      now - this.#requestedAt < TRAFFIC_INTERVALS * pool.statsIntervalMs
    )
  }

  /** Time of the next alarm; null: no bookings and no traffic, so the object may sleep. */
  #nextAlarmAt(): number | null {
    const { pool, nextLapseAt } = this.#state
    const now = this.now()
    const times = [nextLapseAt === null ? Infinity : nextLapseAt + 1]
    if (pool !== null && this.#hasTraffic(pool, now)) times.push(this.#probeAt())
    if (this.#changed) times.push(now + FLUSH_MS)
    const next = Math.min(...times)
    return next === Infinity ? null : Math.max(next, now)
  }

  async #flush(): Promise<void> {
    const snapshot = this.#state.snapshot(this.now())
    if (snapshot === null) return
    this.#changed = false
    try {
      await this.#store.save(snapshot)
    } catch (error) {
      // Expiry continues; the next change retries.
      logError('snapshot_unwritten', error)
    }
  }

  #admitAnswer(answer: AdmissionResult): AdmitAnswer {
    if ('refusal' in answer) return answer
    this.#recordChange()
    const { key: _, ...admitted } = answer
    return admitted
  }

  /** Wakes waiting requests until there are none. */
  #tick(): void {
    this.#isTicking = this.#state.waiting > 0
    if (!this.#isTicking) return
    setTimeout(() => {
      this.#state.wake(this.now())
      this.#tick()
    }, WAKE_MS)
  }

  /** Records traffic, so that engines are probed again, also for a refused request. */
  #recordTraffic(): void {
    this.#requestedAt = this.now()
    const at = this.#probeAt()
    if (at !== Infinity) this.#alarm.by(Math.max(this.#requestedAt, Math.min(at, this.#requestedAt + FLUSH_MS)))
  }

  #probeAt(): number {
    const usualMs = this.#state.pool?.statsIntervalMs ?? Infinity
    const sharedMs = this.#isShared ? SHARED_PROBE_MS : Infinity
    const sickMs = this.#isSick ? SICK_PROBE_MS : Infinity
    return this.#probedAt + Math.min(usualMs, sharedMs, sickMs)
  }

  #recordChange(): void {
    this.#changed = true
    this.#alarm.by(this.now() + FLUSH_MS)
  }

  #receive(bookingEvents: readonly BookingEvent[]): void {
    const now = this.now()
    let changed = false
    for (const bookingEvent of bookingEvents) {
      try {
        if (applyEvent(this.#state, bookingEvent, now)) changed = true
      } catch (error) {
        // A thrown event would be repeated with every call.
        logError('booking_event_unreadable', error)
      }
    }
    if (changed) this.#recordChange()
  }
}

/** An object can only write to the platform's log. */
function logError(event: string, error: unknown): void {
  console.error(JSON.stringify({ event, object: 'cluster', error: String(error) }))
}
