import { BoundedSet } from '../bounded-set.ts'
import type { Admission } from '../contract/admission.ts'
import type { Decision } from '../contract/decision.ts'
import type { EngineSignal } from '../contract/engine-signal.ts'
import { endedAs, type Outcome } from '../contract/outcome.ts'
import { PAYLOAD_VERSION } from '../contract/payload-version.ts'
import { type Placement, servingEngine } from '../contract/placement.ts'
import type { PoolConfig } from '../contract/pool-config.ts'
import type { PoolDigest, PoolSummary } from '../contract/pool-digest.ts'
import type { Refusal } from '../contract/refusal.ts'
import { type RegionDigest, regionDigestOf } from '../contract/region-digest.ts'
import type { Renewal } from '../contract/renewal.ts'
import type { Resume } from '../contract/resume.ts'
import type { StageTimes } from '../contract/stages.ts'
import { type AddHints, RegistrySlot } from '../lmcache/registry-slot.ts'
import { OverloadControl } from '../overload/overload-control.ts'
import { HistoryRecorder } from '../reports/history-recorder.ts'
import type { Random } from '../routing/policy.ts'
import { RankingPool } from '../routing/ranking.ts'
import type { AdmissionResult, AdmittedBooking, BookingHandle } from './admission-result.ts'
import { BookingLifecycle } from './booking-lifecycle.ts'
import type { LegDone } from './booking-ref.ts'
import { type Booking, bookingKey, Bookings, type BookingTerms, engineLegsOf, renewalOf } from './bookings.ts'
import type { Circuit } from './pool-engines/circuit.ts'
import { DecisionCounts } from './decision/decision-counts.ts'
import type { Choice } from './decision/decision-result.ts'
import { DecisionLog, toDecision } from './decision/decision-log.ts'
import { decisionStepsOf } from './decision/decision-steps.ts'
import { emptyDigest } from './empty-digest.ts'
import type { TrafficShare } from './pool-engines/engine-state.ts'
import { grantedRescue } from './condition/granted-rescue.ts'
import { PoolEngines } from './pool-engines/pool-engines.ts'
import type { HostTasks } from './host-tasks.ts'
import { noQueue, type RequestQueue } from './queue/request-queue.ts'
import { PackedPrefixes } from './packed-prefixes.ts'
import { lapseAfterEviction } from './lease-after-eviction.ts'
import { PoolLedger } from './ledger.ts'
import { LoadStats } from './load-stats.ts'
import { type ConfiguredPool, Placer, type PlacingInput } from './decision/placer.ts'
import { PolicyChains } from './decision/policy-chains.ts'
import { PoolEvents } from './pool-events.ts'
import { behindOthers, leftQueue, notWedged, unconfigured } from './refusals.ts'
import { isRetry, repeats } from './retried-work.ts'
import { RetryBudget } from './retry-budget.ts'
import { type BookingSnapshot, type PoolSnapshot, SNAPSHOT_VERSION } from './snapshot.ts'
import { queueOf, WaitingRoom, type WaitingRoomParts, type WaitTerms } from './queue/waiting-room.ts'

const DECISIONS_KEPT = 1000

/** Released keys remembered, so that a late renewal does not restore the booking. */
const ENDED_KEYS_KEPT = 4096

interface PoolStateParts {
  readonly random: Random
  /** Id of this incarnation, part of every digest. */
  readonly epoch: string
  /** Admission control; absent: its own. */
  readonly overload?: OverloadControl
}

/**
 * State machine of one pool of one cluster. The Durable Object and Node add clock, transport and storage. Every method
 * is synchronous; `now` is milliseconds since the epoch. Ranking and booking in one step makes concurrent requests see
 * each other.
 */
export class PoolState {
  /** LMCache registry, for pools that use the gateway as one. */
  readonly registry = new RegistrySlot((addHints) => (this.#addHints = addHints))
  #addHints: AddHints = (admission) => admission
  readonly #epoch: string
  readonly #load = new LoadStats()
  readonly #ledger = new PoolLedger(this.#load)
  readonly #engines: PoolEngines
  readonly #bookings = new Bookings()
  readonly #spare = new RankingPool()
  readonly #decisionLog = new DecisionLog(DECISIONS_KEPT, this.#spare)
  readonly #counts = new DecisionCounts()
  readonly #events = new PoolEvents()
  readonly #history = new HistoryRecorder()
  readonly #lifecycle: BookingLifecycle
  readonly #ended = new BoundedSet(ENDED_KEYS_KEPT)
  /** Keys of clients that left before their request to wait came. */
  readonly #left = new BoundedSet(ENDED_KEYS_KEPT)
  readonly #budget = new RetryBudget()
  readonly #overload: OverloadControl
  readonly #placer: Placer
  readonly #waitingParts: WaitingRoomParts = {
    place: (admission, now, waitedMs) => this.#placed(bookingKey(admission), { admission, now, waitedMs }),
    lacking: (admission, now) =>
      this.#placer.lacking({ admission, reading: this.#read(admission, now), now }, this.#configured!),
    cachedTokens: (key) => this.#decisionLog.find(key)?.predictedCachedTokens ?? 0,
    refused: (admission, refusal, now) => this.#overload.missed(this.#counted({ refusal }, admission), admission, now),
    demandOf: (admission, now) => this.#placer.demandOf(admission, this.#read(admission, now)),
  }
  #waiting: RequestQueue = noQueue
  #configured: (ConfiguredPool & { readonly version: number }) | null = null
  readonly #prefixes = new PackedPrefixes(this.#ledger)
  #seq = 0

  constructor({ random, epoch, overload = new OverloadControl(random) }: PoolStateParts) {
    this.#epoch = epoch
    this.#overload = overload
    const booked = { load: this.#load, ledger: this.#ledger, overload }
    this.#engines = new PoolEngines(booked, this.#events, this.#bookings)
    this.#placer = new Placer({
      ...booked,
      random,
      engines: this.#engines,
      budget: this.#budget,
      spare: this.#spare,
    })
    this.#lifecycle = new BookingLifecycle({
      ...booked,
      engines: this.#engines,
      decisions: this.#decisionLog,
      history: this.#history,
    })
  }

  /** Configured pool; null: none yet. */
  get pool(): PoolConfig | null {
    return this.#configured?.pool ?? null
  }

  get bookings(): number {
    return this.#bookings.size
  }

  /** (block, engine) entries of the prefix index, and the bytes of all its tables. */
  get indexSize(): PoolLedger['indexSize'] {
    return this.#ledger.indexSize
  }

  /** When the next booking expires unless it is renewed; null: none. */
  get nextLapseAt(): number | null {
    return this.#bookings.nextLapseAt()
  }

  /** Applies a configuration. false: not newer than the current one. */
  configure(version: number, pool: PoolConfig, now: number): boolean {
    if (this.#configured !== null && version <= this.#configured.version) return false
    this.#configured = { version, pool, chains: new PolicyChains(pool), steps: decisionStepsOf(pool) }
    this.#engines.adopt(pool, now)
    this.#history.configure(pool.slo ?? null)
    this.#overload.configure(pool.slo ?? null, now)
    this.#lifecycle.configure(pool)
    this.registry.configure(pool)
    this.#waiting = queueOf(pool.queue ?? null, { current: this.#waiting, now }, this.#waitingParts)
    return true
  }

  /** Ranks and books. A repeated call for a live booking (lost response) returns the same placement. */
  admit(request: Admission, now: number): AdmittedBooking | { readonly refusal: Refusal } {
    const key = bookingKey(request)
    const held = this.#bookings.get(key)
    if (held !== undefined) return this.#again(held, now)
    const { edgeRefusals = 0 } = request
    if (edgeRefusals > 0) {
      this.#counts.refusedByEdge(edgeRefusals)
      this.#overload.refusedByEdges(edgeRefusals, now)
    }
    if (this.#lacksConfiguration(request)) return { refusal: unconfigured }
    this.#engines.look(now)
    const admission = grantedRescue(this.#addHints(request, now), this.#engines, now)
    if (admission === null) return { refusal: notWedged }
    if (!isRetry(admission)) this.#budget.request(now)
    if (this.#waiting.holdsBack(admission, now)) return { refusal: { ...behindOthers, mayWait: true } }
    return this.#overload.rated(this.#placed(key, { admission, now }), admission, now)
  }

  /**
   * Admits a request as soon as there is room, within the limits of the pool's queue, and calls `done` once, at once or
   * later. A repeated call (lost connection) replaces the earlier one. `leave` ends the wait.
   */
  wait(request: Admission, terms: WaitTerms): void {
    const { now, done } = terms
    const key = bookingKey(request)
    const held = this.#bookings.get(key)
    if (held !== undefined) return done(this.#again(held, now))
    const admission = this.#addHints(request, now)
    if (this.#lacksConfiguration(admission)) return done({ refusal: unconfigured })
    // One that was placed may wait again, because its gateway did not know the engine.
    if (this.#left.has(key)) return done({ refusal: leftQueue })
    if (this.#waiting instanceof WaitingRoom) this.#waiting.join(admission, terms)
    else done(this.#placed(key, { admission, now }))
  }

  /** The client of a waiting request has left. A place that it has got meanwhile is free again. */
  leave(key: string, now: number): void {
    // Otherwise the request to wait comes later.
    if (!this.#waiting.leave(key) && !this.release(key, endedAs('client_gone'), now)) this.#left.add(key)
  }

  /** Places waiting requests that have room now. Hosts call it every `WAKE_MS` while requests wait. */
  wake(now: number): void {
    this.#waiting.wake(now)
  }

  /** Number of requests that wait for room. */
  get waiting(): number {
    return this.#waiting.size
  }

  /** Decides and books. */
  #placed(key: string, { admission, now, waitedMs }: Omit<PlacingInput, 'reading'>): AdmissionResult {
    const input = { admission, reading: this.#read(admission, now), now, waitedMs }
    const chosen = this.#placer.place(input, this.#configured!)
    if ('refusal' in chosen) {
      // The request is counted when its wait ends.
      if (this.#waiting.takes(admission, chosen.refusal, now))
        return waitedMs === undefined ? { refusal: { ...chosen.refusal, mayWait: true } } : chosen
      if (admission.attempt > 0 && admission.second === undefined)
        this.#decisionLog.retryRefused(admission.id, chosen.refusal.reason)
      return this.#counted(chosen, admission)
    }
    const waited = waitedMs === undefined ? chosen : { ...chosen, decision: { ...chosen.decision, waitedMs } }
    return this.#booked(key, waited, input)
  }

  #counted(refused: { readonly refusal: Refusal }, admission: Admission): { readonly refusal: Refusal } {
    this.#counts.add(refused, admission)
    return refused
  }

  #booked(key: string, chosen: Choice, { admission, now, reading }: PlacingInput): AdmittedBooking {
    const { second } = admission
    this.#counts.add(chosen, admission)
    if (second?.kind === 'rescue') this.#engines.rescued(second.from)
    else if (repeats(admission, chosen.decision.placement)) this.#budget.retry(now, second !== undefined)
    this.#placer.booked()
    const { decision } = chosen
    const logged = this.#decisionLog.add(chosen)
    if (admission.attempt === 0) this.#history.requested(now)
    this.#history.gaugeBy(this.#engines, now)
    const placement = this.#engines.adapters.begin(decision.placement, admission, now)
    const { legs } = this.#add(key, admission, placement, { now, reading, logged })
    for (const { engine } of legs) this.#engines.chosen(engine, key)
    const { policy, predictedTtftMs } = decision
    if (decision.panic === true) this.#events.raise({ event: 'panic_mode', engine: servingEngine(placement) }, now)
    const events = this.#events.take()
    return { key, placement, policy, predictedTtftMs, ...(events.length === 0 ? {} : { events }) }
  }

  /** Ranks without booking or any other effect. */
  rank(admission: Admission, now: number): { readonly decision: Decision } | { readonly refusal: Refusal } {
    if (this.#lacksConfiguration(admission)) return { refusal: unconfigured }
    const hinted = this.#addHints(admission, now)
    const chosen = this.#placer.choose({ admission: hinted, reading: this.#read(hinted, now), now }, this.#configured!)
    if ('refusal' in chosen) return chosen
    const decision = toDecision(chosen)
    this.#spare.give(chosen.ranked)
    return { decision }
  }

  /** Renews a lease. Every other method with a key returns whether the booking exists, and renews it. */
  renew(key: string, now: number): Renewal {
    return renewalOf(this.#alive(key, now))
  }

  /** Ends early legs of a split request: their engines are free, the decode leg continues. */
  legDone(key: string, done: LegDone, now: number): boolean {
    return this.#withBooking(key, now, (booking) => this.#lifecycle.legDone(booking, done, now))
  }

  firstToken(key: string, stages: StageTimes, now: number): boolean {
    return this.#withBooking(key, now, (booking) => this.#lifecycle.firstToken(booking, stages, now))
  }

  /** Records output. `outputBlocks` is the total so far. */
  progress(key: string, outputBlocks: number, now: number): boolean {
    return this.#withBooking(key, now, (booking) => this.#lifecycle.progress(booking, outputBlocks, now))
  }

  /** Releases a booking once. false: unknown or already released. */
  release(key: string, outcome: Outcome, now: number): boolean {
    const booking = this.#bookings.take(key)
    if (booking === undefined) return false
    // Events of replicas arrive in order, so nothing renews their bookings after the end.
    if (!booking.isOfPeer) this.#ended.add(key)
    this.#lifecycle.end(booking, outcome, now)
    if (outcome.result === 'complete') this.#overload.answered(now - booking.bookedAt)
    this.#waiting.ended(key, outcome.usage)
    this.#waiting.wake(now)
    return true
  }

  /** Cost of a booking by its key, once it has ended. null: unknown, returned before, or the pool counts no costs. */
  costOf(key: string): ReturnType<BookingLifecycle['costOf']> {
    return this.#lifecycle.costOf(key)
  }

  /** Books again without ranking, after an eviction. No effect for live or released bookings. */
  resume(
    { admission, placement, firstTokenSeen, legsDone = [], outputBlocks, ageMs, ofPeer }: Resume,
    now: number,
  ): BookingHandle | { readonly refusal: Refusal } {
    if (this.#configured === null) return { refusal: unconfigured }
    const key = bookingKey(admission)
    const known = this.#alive(key, now)
    // Events of replicas arrive in order; those of a gateway may arrive after the release.
    if (known === undefined && ofPeer === undefined && this.#ended.has(key)) return { key }
    const reading = ofPeer === 'now' ? this.#read(admission, now) : undefined
    const booking = known ?? this.#add(key, admission, placement, { now, reading, isOfPeer: ofPeer !== undefined })
    this.#lifecycle.catchUp(booking, { firstTokenSeen, legsDone, outputBlocks, ageMs }, now)
    return { key }
  }

  /** Returns the probed engines that also serve other sources or are silent: their reports change within seconds. */
  observe(signals: readonly EngineSignal[], now: number): readonly string[] {
    for (const signal of signals) this.#engines.observe(signal, now)
    this.#history.gaugeBy(this.#engines, now)
    this.#engines.stateCapacity(this.#overload.arrivals, now)
    this.#waiting.wake(now)
    return signals
      .filter((signal) => signal.kind === 'probe' && this.#engines.changesSoon(signal.engine))
      .map((signal) => signal.engine)
  }

  /** Judges the engines. Returns the trials to send now, and events for the log. Hosts call it often. */
  watch(now: number): HostTasks {
    const trials = this.#engines.watch(now)
    return { trials, events: this.#events.take(), isSick: this.#engines.isSick }
  }

  /** Applies KV events of engines; returns one result each. */
  feed(...[feeds, now]: Parameters<PoolEngines['feed']>): ReturnType<PoolEngines['feed']> {
    return this.#engines.feed(feeds, now)
  }

  digest(now: number): PoolDigest {
    return this.#digestOf(() => this.#engines.digest(now), now)
  }

  /** Returns the region digest: expected TTFT and known prefixes. */
  regionDigest(now: number): RegionDigest {
    const { version = 0, pool = null } = this.#configured ?? {}
    const facts = {
      cluster: pool?.cluster ?? '',
      pool: pool?.pool ?? '',
      configVersion: version,
      requests: this.#bookings.size,
      prefixes: this.#prefixes.text(now),
    }
    return regionDigestOf(this.#engines.estimates(now), facts)
  }

  /**
   * Returns a digest with the last decisions.
   * @param decisions maximum number of decisions
   * @param historySince ms since the epoch: the history has what ended after it
   */
  summary(decisions: number, historySince: number, now: number): PoolSummary {
    this.#history.gaugeBy(this.#engines, now)
    return {
      digest: this.#digestOf(() => this.#engines.summary(now), now),
      decisions: this.#decisionLog.latest(decisions),
      measured: this.#decisionLog.measured(decisions),
      history: this.#history.data(historySince, now),
    }
  }

  /** First attempts of the last ten seconds. */
  recentRequests(now: number): number {
    return this.#budget.recent(now)
  }

  /** Circuit of an engine. null: unknown engine. */
  circuitOf(engine: string): Circuit | null {
    return this.#engines.table.get(engine)?.circuit ?? null
  }

  /**
   * Applies what several processes in front of one engine share. No effect for unknown engines.
   * @param circuit absent: it stays
   */
  follow(engine: string, { share, circuit }: { readonly share: TrafficShare; readonly circuit?: Circuit }): void {
    const state = this.#engines.table.get(engine)
    if (state === undefined) return
    state.share = share
    this.#budget.fraction = share.fraction
    if (circuit !== undefined) state.circuit = circuit
  }

  /** Finds a decision by request id (its last attempt) or by booking key. */
  explain(id: string): Decision | null {
    return this.#decisionLog.find(id)
  }

  /** Releases bookings that were not renewed for a lease; returns their number. Their gateways may resume them. */
  expire(now: number): number {
    const lapsed = this.#bookings.lapsed(now)
    for (const booking of lapsed) {
      this.#bookings.take(booking.key)
      // Its gateway may resume it, also if an earlier booking with the same key was released.
      this.#ended.delete(booking.key)
      this.#lifecycle.end(booking, endedAs('lapsed'), now)
      this.#waiting.ended(booking.key, null)
    }
    this.#waiting.wake(now)
    return lapsed.length
  }

  /** Returns the state as plain data; null: never configured. */
  snapshot(now: number): PoolSnapshot | null {
    if (this.#configured === null) return null
    const { version: configVersion, pool } = this.#configured
    return {
      version: SNAPSHOT_VERSION,
      at: now,
      configVersion,
      pool,
      engines: this.#engines.snapshot(),
      bookings: this.#bookings.snapshot(),
      estimators: this.#ledger.snapshot(this.#engines.table.all()),
    }
  }

  /** Restores a snapshot into a new state. Gateways have half a lease to renew their bookings; others expire. */
  restore(snapshot: PoolSnapshot, now: number): void {
    if (snapshot.version !== SNAPSHOT_VERSION || !this.configure(snapshot.configVersion, snapshot.pool, now)) return
    this.#engines.restore(snapshot.engines, now)
    this.#ledger.restore(snapshot.estimators, this.#engines.table.all())
    for (const booking of snapshot.bookings) this.#rebook(booking, now)
    this.#engines.settle((key) => this.#bookings.get(key) !== undefined)
  }

  get #leaseMs(): number {
    return this.#configured?.pool.leaseMs ?? 0
  }

  #digestOf(engines: () => PoolDigest['engines'], now: number): PoolDigest {
    this.#seq += 1
    const facts = { version: PAYLOAD_VERSION, seq: this.#seq, epoch: this.#epoch, at: now }
    if (this.#configured === null) return emptyDigest(facts)
    const { pool, version } = this.#configured
    return {
      ...facts,
      cluster: pool.cluster,
      pool: pool.pool,
      configVersion: version,
      bookings: this.#bookings.size,
      ...(pool.queue ? { queue: { requests: this.waiting, oldestMs: this.#waiting.oldestMs(now) } } : {}),
      ...this.#engines.capacity(this.#overload.arrivals, this.waiting, now),
      engines: engines(),
      decisions: this.#counts.list(),
    }
  }

  /** Whether the gateway has a newer configuration, which it sends before it asks again. */
  #lacksConfiguration(admission: Admission): boolean {
    return this.#configured === null || admission.configVersion > this.#configured.version
  }

  #read(admission: Admission, now: number): ReturnType<PoolLedger['read']> {
    return this.#ledger.read(admission, now, this.#engines.table.all())
  }

  #again(booking: Booking, now: number): AdmittedBooking {
    this.#bookings.touch(booking, now, this.#leaseMs)
    const { key, placement, logged } = booking
    const { policy = '', predictedTtftMs = null } = logged?.decision ?? {}
    return { key, placement, policy, predictedTtftMs }
  }

  #add(key: string, admission: Admission, placement: Placement, terms: BookingTerms): Booking {
    const { now, reading, isOfPeer = false } = terms
    const logged = terms.logged === undefined ? (isOfPeer ? null : this.#decisionLog.of(admission)) : terms.logged
    const legs = engineLegsOf(placement, this.#engines.table)
    const booked = { admission, legs }
    for (const { engine } of legs) this.#engines.joined(engine)
    this.#load.addBooking(booked, now, reading?.prompt)
    const entry = this.#ledger.addBooking(booked, now, reading)
    const parts = { key, admission, placement, legs, entry, bookedAt: now, isOfPeer, logged }
    const booking = this.#bookings.add(parts, this.#leaseMs)
    if (terms.logged === undefined) this.#engines.adapters.resume(booking, now)
    this.#lifecycle.added(booking, now)
    return booking
  }

  #rebook(
    { admission, placement, seenAt, firstTokenSeen, legsDone = [], outputBlocks, isFenced = false }: BookingSnapshot,
    now: number,
  ): void {
    const booking = this.#add(bookingKey(admission), admission, placement, { now })
    booking.seenAt = seenAt
    booking.isFenced = isFenced
    booking.lapsesAt = lapseAfterEviction(seenAt, this.#leaseMs, now)
    this.#lifecycle.catchUp(booking, { firstTokenSeen, legsDone, outputBlocks }, now)
  }

  #withBooking(key: string, now: number, mark: (booking: Booking) => void): boolean {
    const booking = this.#alive(key, now)
    if (booking === undefined) return false
    mark(booking)
    this.#waiting.wake(now)
    return true
  }

  #alive(key: string, now: number): Booking | undefined {
    const booking = this.#bookings.get(key)
    if (booking !== undefined) this.#bookings.touch(booking, now, this.#leaseMs)
    return booking
  }
}
