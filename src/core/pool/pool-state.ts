import { CacheRegistry } from '../lmcache/registry.ts'
import { packFilter } from '../routing/prefix-filter.ts'
import type { Random } from '../routing/policy.ts'
import { RankingPool } from '../routing/ranking.ts'
import { LoadStats } from './load-stats.ts'
import { PoolLedger } from './ledger.ts'
import { type Booking, bookingKey, Bookings, legsOf, BoundedSet } from './bookings.ts'
import { BookingLifecycle } from './booking-lifecycle.ts'
import type { LegDone } from './leg.ts'
import { type DecisionResult, decide } from './decide.ts'
import {
  type Admission,
  type ClusterDigest,
  type ClusterGlance,
  type Decision,
  endedAs,
  type EngineSignal,
  type Outcome,
  PAYLOAD_VERSION,
  type Placement,
  type PoolConfig,
  type Refusal,
  type Resume,
  type StageTimes,
} from '../contract/contract.ts'
import { Decisions, toDecision, DecisionCounts } from './decisions.ts'
import { emptyDigest } from './digest.ts'
import { Fleet } from './fleet.ts'
import { type RegionDigest, regionDigestOf } from '../contract/region-digest.ts'
import { PolicyChains } from './policy-chain.ts'
import { type PoolEvent, PoolEvents } from './pool-events.ts'
import type { SignalReader } from './signal-reader.ts'
import { retryBudgetSpent, unconfigured } from './refusals.ts'
import { isRetry, repeats, RetryBudget, withoutFailedLegs } from './retry-budget.ts'
import { type BookingSnapshot, type ClusterSnapshot, SNAPSHOT_VERSION } from './snapshot.ts'

const DECISIONS_KEPT = 1000
/** Depths of prompts that an outlook tells of: some 20 KB of text. */
const DIGEST_PREFIXES = 8192
/** However many ask. */
const PREFIX_SAMPLE_TTL_MS = 1_000
/** Enough that a renewal under way when its booking ended does not bring the booking back. */
const ENDED_KEYS_KEPT = 4096
/** A live edge renews every third of a lease, so half a lease without a word after an eviction means it is gone. */
const GRACE_SHARE = 0.5
/** A booking put down longer ago than this many leases gets no grace when it is taken up again. */
const GRACE_LEASES = 3

/** What a holder of a booking needs to speak of it. */
export interface BookingHandle {
  readonly key: string
}

export interface Admitted extends BookingHandle {
  readonly placement: Placement
  readonly policy: string
  readonly predictedTtftMs: number | null
  /** For the log. Absent: none. */
  readonly events?: readonly PoolEvent[]
}

interface BookingTerms {
  readonly now: number
  readonly leaseMs: number
  /** Of the choice that is booked; absent: chosen long ago. */
  readonly reading?: SignalReader
  readonly elsewhere?: boolean
}

export interface ClusterStateParts {
  readonly random: Random
  /** Names this incarnation in digests. */
  readonly epoch: string
}

/**
 * The state machine of one cluster's pool; Durable Object and Node wrap it and add clock, wire and storage. Every
 * method is synchronous and `now` is milliseconds since the epoch: ranking and booking in one step is what makes
 * concurrent requests see each other.
 */
export class ClusterState {
  /** Where LMCache servers report to, in pools that have it so. */
  readonly registry = new CacheRegistry()
  readonly #random: Random
  readonly #epoch: string
  readonly #load = new LoadStats()
  readonly #ledger = new PoolLedger(this.#load)
  readonly #fleet: Fleet
  readonly #bookings = new Bookings()
  readonly #spare = new RankingPool()
  readonly #decisions = new Decisions(DECISIONS_KEPT, this.#spare)
  readonly #counts = new DecisionCounts()
  readonly #events = new PoolEvents()
  readonly #lifecycle: BookingLifecycle
  readonly #ended = new BoundedSet(ENDED_KEYS_KEPT)
  readonly #budget = new RetryBudget()
  #configured: { readonly version: number; readonly pool: PoolConfig; readonly chains: PolicyChains } | null = null
  #prefixes = { at: NaN, text: '' }
  #rotation = 0
  #seq = 0

  constructor({ random, epoch }: ClusterStateParts) {
    this.#random = random
    this.#epoch = epoch
    const accounts = { load: this.#load, ledger: this.#ledger }
    this.#fleet = new Fleet(accounts, this.#events)
    this.#lifecycle = new BookingLifecycle({ ...accounts, fleet: this.#fleet, decisions: this.#decisions })
  }

  /** null: never configured. */
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

  /** When the next booking lapses unless someone speaks of it; null: there is none. */
  get nextLapseAt(): number | null {
    return this.#bookings.nextLapseAt()
  }

  /** false: not newer than what it has. */
  configure(version: number, pool: PoolConfig, now: number): boolean {
    if (this.#configured !== null && version <= this.#configured.version) return false
    this.#configured = { version, pool, chains: new PolicyChains(pool) }
    this.#fleet.adopt(pool, now)
    this.registry.configure(pool)
    return true
  }

  /** Ranks and books. Asked again for a booking it holds (an answer was lost on the wire), it answers the same again. */
  admit(asked: Admission, now: number): Admitted | { readonly refusal: Refusal } {
    const key = bookingKey(asked)
    const held = this.#bookings.get(key)
    if (held !== undefined) return this.#again(held, now)
    const admission = this.registry.hinted(asked, now)
    if (this.#lacksConfiguration(admission)) return { refusal: unconfigured }
    const { leaseMs } = this.#configured!.pool
    if (!isRetry(admission)) this.#budget.request(now)
    const reading = this.#read(admission, now)
    const chosen = this.#chooseWithinBudget(admission, reading, now)
    this.#counts.add(chosen, admission.attempt)
    if ('refusal' in chosen) {
      if (admission.attempt > 0) this.#decisions.retryRefused(admission.id, chosen.refusal.reason)
      return chosen
    }
    if (repeats(admission, chosen.decision.placement)) this.#budget.retry(now)
    this.#rotation += 1
    const { decision } = chosen
    this.#decisions.add(chosen)
    const booking = this.#book(admission, decision.placement, { now, leaseMs, reading })
    // An edge that did not know the first choice asks again under the same name.
    this.#ended.delete(key)
    for (const { engine } of booking.legs) this.#fleet.chosen(engine, key)
    const { placement, policy, predictedTtftMs } = decision
    if (decision.panic === true) this.#events.raise({ event: 'panic_mode', engine: servingEngine(placement) }, now)
    const events = this.#events.take()
    return { key, placement, policy, predictedTtftMs, ...(events.length === 0 ? {} : { events }) }
  }

  /** Ranks without booking and leaves no trace. */
  rank(admission: Admission, now: number): { readonly decision: Decision } | { readonly refusal: Refusal } {
    if (this.#lacksConfiguration(admission)) return { refusal: unconfigured }
    const hinted = this.registry.hinted(admission, now)
    const chosen = this.#choose(hinted, this.#read(hinted, now), now)
    if ('refusal' in chosen) return chosen
    const decision = toDecision(chosen)
    this.#spare.give(chosen.ranked)
    return { decision }
  }

  /** Every method that speaks of a booking answers whether it is known, and counts as a sign of life. */
  renew(key: string, now: number): boolean {
    return this.#alive(key, now) !== undefined
  }

  /** Legs of a split answered: their engines are free, the decode engine goes on. */
  legDone(key: string, done: LegDone, now: number): boolean {
    return this.#withBooking(key, now, (booking) => this.#lifecycle.legDone(booking, done, now))
  }

  firstToken(key: string, stages: StageTimes, now: number): boolean {
    return this.#withBooking(key, now, (booking) => this.#lifecycle.firstToken(booking, stages, now))
  }

  /** `outputBlocks` is the total so far. */
  progress(key: string, outputBlocks: number, now: number): boolean {
    return this.#withBooking(key, now, (booking) => this.#lifecycle.progress(booking, outputBlocks, now))
  }

  /** Has effect once; false for a booking that is unknown or was released. */
  release(key: string, outcome: Outcome, now: number): boolean {
    const booking = this.#bookings.take(key)
    if (booking === undefined) return false
    this.#ended.add(key)
    this.#lifecycle.end(booking, outcome, now)
    return true
  }

  /** Books again, without ranking, what was forgotten; harmless for what is known or was released. */
  resume(
    { admission, placement, firstTokenSeen, legsDone = [], outputBlocks, elsewhere }: Resume,
    now: number,
  ): BookingHandle | { readonly refusal: Refusal } {
    if (this.#configured === null) return { refusal: unconfigured }
    const key = bookingKey(admission)
    const known = this.#alive(key, now)
    // What others tell comes in order; what an edge tells may have been overtaken by its end.
    if (known === undefined && elsewhere === undefined && this.#ended.has(key)) return { key }
    const terms = { now, leaseMs: this.#leaseMs, elsewhere: elsewhere !== undefined }
    const booking =
      known ??
      this.#book(admission, placement, elsewhere === 'now' ? { ...terms, reading: this.#read(admission, now) } : terms)
    this.#lifecycle.catchUp(booking, { firstTokenSeen, legsDone, outputBlocks }, now)
    return { key }
  }

  observe(signals: readonly EngineSignal[], now: number): void {
    for (const signal of signals) this.#fleet.observe(signal, now)
  }

  /** What engines' own events say of their caches; one answer each. */
  feed(...[feeds, now]: Parameters<Fleet['feed']>): ReturnType<Fleet['feed']> {
    return this.#fleet.feed(feeds, now)
  }

  digest(now: number): ClusterDigest {
    return this.#digestOf(() => this.#fleet.digest(now), now)
  }

  /** What a new prompt may expect here. */
  regionDigest(now: number): RegionDigest {
    if (!(now - this.#prefixes.at < PREFIX_SAMPLE_TTL_MS))
      this.#prefixes = { at: now, text: packFilter(this.#ledger.sample(DIGEST_PREFIXES)) }
    const { version = 0, pool = null } = this.#configured ?? {}
    const facts = {
      cluster: pool?.cluster ?? '',
      pool: pool?.pool ?? '',
      configVersion: version,
      requests: this.#bookings.size,
      prefixes: this.#prefixes.text,
    }
    return regionDigestOf(this.#fleet.estimates(now), facts)
  }

  /** @param decisions how many of the last ones */
  glance(decisions: number, now: number): ClusterGlance {
    return {
      digest: this.#digestOf(() => this.#fleet.glance(now), now),
      decisions: this.#decisions.latest(decisions),
      measured: this.#decisions.measured(decisions),
    }
  }

  /** By the request's id (its last attempt) or by booking key. */
  explain(id: string): Decision | null {
    return this.#decisions.find(id)
  }

  /** Ends the bookings nobody has spoken of for a lease; how many. Their edges may yet resume them. */
  expire(now: number): number {
    const lapsed = this.#bookings.lapsed(now)
    for (const booking of lapsed) {
      this.#bookings.take(booking.key)
      this.#lifecycle.end(booking, endedAs('lapsed'), now)
    }
    return lapsed.length
  }

  /** null: never configured, nothing to keep. */
  snapshot(now: number): ClusterSnapshot | null {
    if (this.#configured === null) return null
    const { version: configVersion, pool } = this.#configured
    return {
      version: SNAPSHOT_VERSION,
      at: now,
      configVersion,
      pool,
      engines: this.#fleet.snapshot(),
      bookings: this.#bookings.snapshot(),
      estimators: this.#ledger.snapshot(),
    }
  }

  /** Into a fresh state. Live edges get half a lease to speak up; what they do not claim lapses. */
  restore(snapshot: ClusterSnapshot, now: number): void {
    if (snapshot.version !== SNAPSHOT_VERSION || !this.configure(snapshot.configVersion, snapshot.pool, now)) return
    this.#fleet.restore(snapshot.engines, now)
    this.#ledger.restore(snapshot.estimators)
    for (const booking of snapshot.bookings) this.#rebook(booking, now)
    this.#fleet.settle((key) => this.#bookings.get(key) !== undefined)
  }

  get #leaseMs(): number {
    return this.#configured?.pool.leaseMs ?? 0
  }

  #digestOf(engines: () => ClusterDigest['engines'], now: number): ClusterDigest {
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
      engines: engines(),
      decisions: this.#counts.list(),
    }
  }

  /** The edge knows a newer configuration: it will send it and ask again. */
  #lacksConfiguration(admission: Admission): boolean {
    return this.#configured === null || admission.configVersion > this.#configured.version
  }

  #read(admission: Admission, now: number): SignalReader {
    return this.#ledger.read(admission, now, this.#fleet.engines.all())
  }

  /** Once the retry budget is spent, a request does without the legs that failed, as far as its pool allows that. */
  #chooseWithinBudget(admission: Admission, reading: SignalReader, now: number): DecisionResult {
    const { retry, split } = this.#configured!.pool
    const isGranted = !isRetry(admission) || this.#budget.allows(now, retry)
    const granted = isGranted ? admission : withoutFailedLegs(admission, split)
    return granted === null ? { refusal: retryBudgetSpent } : this.#choose(granted, reading, now)
  }

  #choose(admission: Admission, reading: SignalReader, now: number): DecisionResult {
    const { pool, chains } = this.#configured!
    return decide(admission, {
      pool,
      chains,
      reading,
      engines: this.#fleet.engines,
      random: this.#random,
      rotation: this.#rotation,
      spare: this.#spare,
      now,
    })
  }

  #again(booking: Booking, now: number): Admitted {
    this.#bookings.touch(booking, now, this.#leaseMs)
    const decision = this.#decisions.find(booking.key)
    const { key, placement } = booking
    return { key, placement, policy: decision?.policy ?? '', predictedTtftMs: decision?.predictedTtftMs ?? null }
  }

  #book(
    admission: Admission,
    placement: Placement,
    { now, leaseMs, reading, elsewhere = false }: BookingTerms,
  ): Booking {
    const key = bookingKey(admission)
    const legs = legsOf(placement, this.#fleet.engines)
    const booking = this.#bookings.add({ key, admission, placement, legs, bookedAt: now, elsewhere }, leaseMs)
    for (const { engine } of legs) this.#fleet.joined(engine)
    this.#load.book(booking, now)
    this.#ledger.book(booking, now, reading)
    return booking
  }

  #rebook(
    { admission, placement, seenAt, firstTokenSeen, legsDone = [], outputBlocks }: BookingSnapshot,
    now: number,
  ): void {
    const booking = this.#book(admission, placement, { now, leaseMs: this.#leaseMs })
    const graceMs = now - seenAt <= GRACE_LEASES * this.#leaseMs ? this.#leaseMs * GRACE_SHARE : 0
    booking.seenAt = seenAt
    booking.lapsesAt = Math.max(seenAt + this.#leaseMs, now + graceMs)
    this.#lifecycle.catchUp(booking, { firstTokenSeen, legsDone, outputBlocks }, now)
  }

  #withBooking(key: string, now: number, mark: (booking: Booking) => void): boolean {
    const booking = this.#alive(key, now)
    if (booking !== undefined) mark(booking)
    return booking !== undefined
  }

  #alive(key: string, now: number): Booking | undefined {
    const booking = this.#bookings.get(key)
    if (booking !== undefined) this.#bookings.touch(booking, now, this.#leaseMs)
    return booking
  }
}

/** The engine that answers. */
const servingEngine = (placement: Placement): string =>
  placement.kind === 'whole' ? placement.engine : placement.decode
