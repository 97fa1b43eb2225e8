import { ChurnMap } from '../churn-map.ts'
import { newTokens, queueSeconds, type PrefillCostModel } from '../latency/cost-model.ts'
import { DEFAULT_PROFILE, profile } from '../latency/profiles.ts'
import type { KvEventDelta, KvEventDeltaState } from '../kv-events/delta-log.ts'
import type { LoadStats } from './load-stats.ts'
import { ActiveBlocks, shapeOf } from '../prefix-index/active-blocks.ts'
import { endsAtFirstToken } from '../contract/legs.ts'
import {
  type Admission,
  type EngineDigest,
  type EngineSpec,
  type EngineStats,
  type Outcome,
  type PoolConfig,
  type StageTimes,
  isOpaque,
} from '../contract/contract.ts'
import { EngineEstimators, HardwareClass } from './engine-estimators.ts'
import {
  endUnstreamed,
  judgeForecast,
  learn,
  prefillEnded,
  engineDigestOf,
  LEARNED_VERSION,
  learnedOf,
  readLearned,
  relearn,
  learnStep,
  UsualOutput,
} from './feedback.ts'
import type { EngineEstimate } from '../contract/region-digest.ts'
import { prefillWork } from './prefill-queue.ts'
import { PrefixIndex } from '../prefix-index/prefix-index.ts'
import {
  endPresumed,
  type LegEntry,
  type LedgerEntry,
  type BookingRef,
  type EngineRef,
  type Forecast,
  type Leg,
  type LegDone,
} from './ledger-entry.ts'
import { SignalReader, type Sources, tokensOfBlock } from './signal-reader.ts'

/**
 * Ledger of a pool: live and cached blocks, queued prefill work, and estimators per engine. Everything is booked at
 * the time of the decision.
 */
export class PoolLedger {
  readonly #load: LoadStats
  readonly #index = new PrefixIndex(1)
  readonly #active = new ActiveBlocks(this.#index)
  readonly #engines: (LedgerEngine | undefined)[] = []
  readonly #requests = new ChurnMap<string, LedgerEntry>()
  /** Shared estimators by hardware profile. */
  readonly #kinds = new Map<string, HardwareClass>()
  #blockTokens = 0
  /** Objective of the time between tokens; null: none. */
  #itlMs: number | null = null
  /** Data of the signal readers; replaced when the block size changes. */
  #sources: Sources
  #firstAddedAt: number | null = null
  readonly #usualOutput = new UsualOutput()

  /** @param load statistics whose signals the readers fill, too */
  constructor(load: LoadStats) {
    this.#load = load
    this.#sources = this.#sourcesOf(0)
  }

  /** (block, engine) entries of the prefix index, and the bytes of all its tables. */
  get indexSize(): { readonly entries: number; readonly bytes: number } {
    return { entries: this.#index.entries, bytes: this.#index.bytes }
  }

  configure(pool: PoolConfig): void {
    this.#index.limit(Math.max(1, pool.indexEntries))
    this.#itlMs = pool.slo?.itlMs ?? null
    for (const entry of this.#engines) if (entry !== undefined) this.#reconfigure(entry, pool.blockTokens)
    this.#blockTokens = pool.blockTokens
    this.#sources = this.#sourcesOf(pool.blockTokens)
  }

  engineAdded(engine: EngineRef, now: number): void {
    this.#firstAddedAt ??= now
    // Engines that start together have no warm engine to compare with.
    const warmSince = now === this.#firstAddedAt ? -Infinity : now
    const book = new EngineEstimators(this.#index.addEngine(), {
      kind: this.#kindOf(engine.spec),
      prior: priorOf(engine.spec),
      warmSince,
    })
    book.capacity.declare(engine.spec.cacheBlocks)
    book.stepLimit.configure(this.#itlMs)
    this.#engines[engine.slot] = { engine, book }
    this.#limit(book)
  }

  engineForgotten(engine: EngineRef): void {
    const book = this.#book(engine)
    this.#index.removeEngine(book.number)
    this.#engines[engine.slot] = undefined
    book.kind.forgotten(book)
  }

  /** Prefill work of bookings without a first token, seconds. */
  queuedPrefillS(engine: EngineRef, now: number): number {
    const { queue } = this.#book(engine)
    queue.settle(now)
    return queue.seconds(now)
  }

  /** Records that the step limit of an engine refused or moved a request. */
  stepLimited(engine: EngineRef, now: number): void {
    this.#book(engine).stepLimit.refused(now)
  }

  revived(engine: EngineRef): void {
    this.#book(engine).revived(this.#index.stamp)
  }

  observed(engine: EngineRef, stats: EngineStats, now: number): void {
    const book = this.#book(engine)
    const cached = book.caches(engine.spec)
    book.observed(stats, this.#blockTokens, engine.spec)
    if (cached && !book.caches(engine.spec)) this.#index.flush(book.number)
    this.#limit(book)
    book.feed.fade(this.#index, { engine: book.number, now })
    const { running, waiting, kvUsage } = stats
    const capacity = book.capacity.declared
    const usedBlocks = kvUsage === null || capacity === null ? null : kvUsage * capacity
    const activeBlocks = this.#active.active(book.number)
    book.queue.settle(now)
    const { queue, usualPrefillS } = book
    this.#load.observed(
      engine,
      { running, waiting, usedBlocks },
      { activeBlocks, queued: queue.length, usualPrefillS, prefilledS: book.prefilledS(now), at: now },
    )
    if (engine.spec.role === 'any' || engine.spec.role === 'decode')
      book.places.reported(running, waiting, { hasMemory: kvUsage !== null && kvUsage < MEMORY_SHARE, now })
  }

  applyKvEvents(engine: EngineRef, feed: KvEventDelta, now: number): KvEventDeltaState {
    const book = this.#book(engine)
    return feed.blockTokens === this.#blockTokens
      ? book.feed.take(feed, this.#index, { engine: book.number, now })
      : 'block_tokens'
  }

  book(booking: BookingRef, now: number, reading?: SignalReader): void {
    const source = reading ?? this.read(booking.admission, now, [])
    const decode = booking.legs.length < 2 ? undefined : booking.legs.find(({ part }) => part === 'decode')
    const handOverMs =
      decode === undefined ? 0 : this.#book(decode.engine).handOver.expectedMs(booking.admission.promptTokens)
    const legs = booking.legs
      .filter(({ part }) => part !== 'encode')
      .map((leg) =>
        this.#addLeg(leg, booking.admission, {
          reading: source,
          isResumed: reading === undefined || isOpaque(leg.engine.spec),
          handOverMs,
          now,
        }),
      )
    this.#requests.set(booking.key, {
      legs,
      sequences: booking.admission.sequences,
      firstTokenAt: null,
      seen: false,
      running: 0,
      blocks: 0,
      prefilledS: 0,
      reported: null,
    })
    const { admission } = booking
    this.#active.saw(tokensOfBlock(admission, this.#blockTokens) / this.#blockTokens, admission.blocks.length >> 1)
    if (this.#active.scale !== 1) for (const leg of legs) this.#limit(leg.estimators)
  }

  legDone(booking: BookingRef, { part, stages, usage = null }: LegDone, now: number): void {
    const request = this.#requests.get(booking.key)
    if (request === undefined) return
    for (const leg of request.legs) {
      if (leg.part !== part || leg.live === null) continue
      leg.usage = usage
      prefillEnded(leg, stages, now)
      this.#endLeg(leg, booking.admission)
    }
  }

  firstToken(booking: BookingRef, stages: StageTimes, now: number): void {
    const request = this.#requests.get(booking.key)
    if (request === undefined) return
    request.firstTokenAt = now
    for (const leg of request.legs) {
      if (leg.queued?.ended === true) judgeForecast(leg, stages)
      else prefillEnded(leg, stages, now)
      if (endsAtFirstToken(leg.part)) this.#endLeg(leg, booking.admission)
      else {
        endPresumed(leg)
        this.#received(leg, booking.admission)
        if (leg.part === 'decode' && stages.first_byte !== undefined)
          leg.estimators.handOver.learn(booking.admission.promptTokens, stages.first_byte)
        leg.estimators.unseenFrom(now, request.sequences)
        request.running = leg.estimators.requests
        request.blocks = this.#active.active(leg.estimators.number)
        request.prefilledS = leg.estimators.prefilledS(now)
        this.#placeTaken(leg, request, now)
      }
    }
  }

  progress(booking: BookingRef, outputBlocks: number, now: number): void {
    const request = this.#requests.get(booking.key)
    if (request === undefined) return
    const { expectedOutputTokens } = booking.admission
    for (const leg of request.legs) {
      if (leg.live === null || endsAtFirstToken(leg.part)) continue
      this.#active.output(leg.live, outputBlocks)
      learnStep(leg, request, { outputBlocks, blockTokens: this.#blockTokens, now })
      if (expectedOutputTokens !== null)
        this.#active.decay(leg.live, (outputBlocks * this.#blockTokens) / Math.max(1, expectedOutputTokens))
    }
    request.reported = { outputBlocks, at: now }
    this.#markSeen(request)
  }

  release(booking: BookingRef, outcome: Outcome, now: number): void {
    const request = this.#requests.get(booking.key)
    if (request === undefined) return
    this.#requests.delete(booking.key)
    // A request that was never prefilled leaves no new blocks. The engine of an expired one has probably continued.
    const prefilled = request.firstTokenAt !== null || outcome.result === 'complete' || outcome.result === 'lapsed'
    this.#markSeen(request)
    const context = { now, index: this.#index, blockTokens: this.#blockTokens }
    if (request.firstTokenAt === null) endUnstreamed(request, outcome, context)
    for (const leg of request.legs) {
      if (leg.queued !== null) leg.estimators.queue.abandon(leg.queued, now, outcome.result === 'complete')
      if (leg.queued !== null && !prefilled) leg.estimators.prefillWork.add(-leg.queued.seconds, now)
      endPresumed(leg)
      if (prefilled && request.firstTokenAt === null) this.#received(leg, booking.admission)
      if (!endsAtFirstToken(leg.part))
        leg.estimators.places.ended(request.sequences ?? 1, booking.admission.streams === true, {
          startedAt: request.firstTokenAt,
          now,
        })
      this.#endLeg(leg, booking.admission, prefilled ? Infinity : leg.estimate.indexBlocks)
    }
    for (const { estimators } of request.legs)
      if (estimators.learner.samples === 0) estimators.learner.setPrior(estimators.costModel(now))
    learn(request, booking.admission, outcome, context)
    this.#usualOutput.learn(outcome, request.sequences)
    for (const { estimators } of request.legs) estimators.kind.learned(estimators)
  }

  read(admission: Admission, now: number, engines: readonly EngineRef[]): SignalReader {
    return new SignalReader(this.#sources, admission, { now, engines })
  }

  estimate(engine: EngineRef, now: number): EngineEstimate {
    const book = this.#book(engine)
    const { queue } = book
    queue.settle(now)
    return {
      waitS: engine.spec.rttMs / 1000 + queue.seconds(now),
      queued: queue.length,
      costModel: book.costModel(now),
      confidence: book.learner.confidence,
    }
  }

  sample(limit: number): Uint32Array {
    return this.#index.sample(limit)
  }

  digest(engine: EngineRef, now: number): Partial<EngineDigest> {
    const book = this.#book(engine)
    return engineDigestOf(book, {
      costModel: book.learner.samples > 0 ? book.learner.costModel : book.costModel(now),
      activeBlocks: this.#active.active(book.number),
      cachedBlocks: Math.round(this.#active.scale * this.#index.cachedBlocks(book.number)),
      now,
    })
  }

  snapshot(): unknown {
    const engines = this.#engines.flatMap((entry) =>
      entry === undefined ? [] : [[entry.engine.spec.id, learnedOf(entry.book)] as const],
    )
    return { version: LEARNED_VERSION, engines: Object.fromEntries(engines) }
  }

  restore(data: unknown): void {
    const learned = readLearned(data)
    if (learned === null) return
    for (const entry of this.#engines) {
      const own = entry === undefined ? undefined : learned.get(entry.engine.spec.id)
      if (entry === undefined || own === undefined) continue
      relearn(entry.book, own)
      this.#limit(entry.book)
    }
  }

  #reconfigure({ engine: { spec }, book }: LedgerEngine, blockTokens: number): void {
    // Blocks of another size have other hashes, so nothing in the index matches again.
    if (this.#blockTokens !== blockTokens || !book.caches(spec)) this.#index.flush(book.number)
    book.stepLimit.configure(this.#itlMs)
    book.described(spec, { kind: this.#kindOf(spec), prior: priorOf(spec), factor: this.#blockTokens / blockTokens })
    this.#limit(book)
  }

  /** Sets the engine's capacity in the index. */
  #limit(book: EngineEstimators): void {
    book.capacity.scale = this.#active.scale
    this.#index.setCapacity(book.number, book.capacity.blocks)
  }

  #addLeg(leg: Leg, admission: Admission, { reading, isResumed, handOverMs, now }: LegStart): LegEntry {
    const { engine, part } = leg
    const book = this.#book(engine)
    const prefills = part !== 'decode'
    const forecast = prefills ? reading.forecast(engine) : NO_FORECAST
    book.queue.settle(now)
    const cached = reading.cached(engine)
    const size = { promptTokens: admission.promptTokens, cachedTokens: cached.total }
    const estimate = {
      cached,
      indexBlocks: reading.indexBlocks(engine),
      uncertainTokens: book.queue.isEmpty ? 0 : reading.tokensOf(this.#index.live[book.number]!),
      stamp: this.#index.stamp,
      usedStamp: this.#index.lastUsed(book.number),
      ttftMs: forecast.ttftMs === null ? null : forecast.ttftMs + handOverMs,
      prefill: forecast.prefill ?? null,
      behindOthers: !book.queue.isEmpty,
      adapterFit: book.adapters.fit(admission.adapter),
    }
    const prefill = {
      newTokens: newTokens(size),
      work: prefillWork(size.promptTokens, size.cachedTokens),
      seconds: queueSeconds(book.costModel(now), size),
      // The response of a prefill leg marks its end.
      streams: part === 'prefill' || admission.streams,
      sequences: admission.sequences,
    }
    const queued = prefills ? book.queuePrefill(prefill, now) : null
    const shared = prefills ? reading.shape.blockCount : estimate.indexBlocks
    const live = this.#active.add(book.number, reading.shape, reading.shares(engine), shared)
    book.requests += 1
    const sequences = admission.sequences ?? 1
    const needsPlace = book.places.excess(sequences + this.#load.foreignRequests(engine, now)) > 0
    if (!endsAtFirstToken(part)) book.places.booked(sequences, admission.streams === true)
    if (admission.adapter !== null) book.adapters.begin(admission.adapter)
    return {
      engine,
      estimators: book,
      part,
      isResumed,
      live,
      queued,
      estimate,
      busyPeriod: null,
      firstTokenInexact: part === 'whole' && needsPlace,
      prefillMs: null,
      usage: null,
    }
  }

  /** Records that the engine runs the request. */
  #placeTaken(leg: LegEntry, { sequences = 1 }: LedgerEntry, now: number): void {
    const { estimators, estimate, queued } = leg
    estimators.places.started(sequences, now)
    if (leg.part !== 'whole' || leg.isResumed || queued === null || estimate.prefill === null) return
    const capacity = estimators.capacity.declared
    if (capacity === null || this.#active.active(estimators.number) > MEMORY_SHARE * capacity) return
    const late = { bookedAt: queued.bookedAt, predictedMs: estimate.prefill.workMs, now }
    if (estimators.places.firstToken(late)) leg.firstTokenInexact = true
  }

  /** Shares the transferred blocks of a decode leg. vLLM caches them on arrival, for NIXL and LMCache alike. */
  #received({ part, live }: LegEntry, { blocks, promptTokens }: Admission): void {
    if (part === 'decode' && live !== null)
      this.#active.received(live, shapeOf(blocks, promptTokens, this.#blockTokens))
  }

  #endLeg(leg: LegEntry, admission: Admission, keepBlocks = Infinity): void {
    if (leg.live === null) return
    this.#active.free(leg.live, keepBlocks)
    // A request that computes all of its prompt shares no block, but the engine caches them.
    if (leg.live.pin === null && keepBlocks === Infinity && leg.estimators.caches(leg.engine.spec)) {
      this.#index.release(this.#index.pin(leg.estimators.number, admission.blocks, admission.blocks.length >> 1))
    }
    leg.estimators.feed.ended(admission.blocks, this.#index, keepBlocks === Infinity)
    leg.live = null
    leg.estimators.requests -= 1
    if (admission.adapter !== null) leg.estimators.adapters.end(admission.adapter)
  }

  /** Ends the estimate of a request's output. */
  #markSeen(request: LedgerEntry): void {
    if (request.seen || request.firstTokenAt === null) return
    request.seen = true
    for (const { estimators, part } of request.legs)
      if (!endsAtFirstToken(part)) estimators.seen(request.firstTokenAt, request.sequences)
  }

  #sourcesOf(blockTokens: number): Sources {
    return {
      index: this.#index,
      active: this.#active,
      load: this.#load,
      blockTokens,
      output: this.#usualOutput,
      book: (engine) => this.#book(engine),
    }
  }

  #kindOf(spec: EngineSpec): HardwareClass {
    const name = kindOf(spec)
    const known = this.#kinds.get(name) ?? new HardwareClass()
    this.#kinds.set(name, known)
    return known
  }

  #book(engine: EngineRef): EngineEstimators {
    const book = this.#engines[engine.slot]?.book
    if (book === undefined) throw new Error(`engine "${engine.spec.id}" is in no books; engineAdded comes first`)
    return book
  }
}

const NO_FORECAST: Forecast = { ttftMs: null, cachedTokens: null }
/** Share of KV memory in use above which requests may wait for memory. */
const MEMORY_SHARE = 0.8

interface LedgerEngine {
  readonly engine: EngineRef
  readonly book: EngineEstimators
}

interface LegStart {
  readonly reading: SignalReader
  readonly isResumed: boolean
  /** From the prefill's end on another engine to the first token, milliseconds; 0: not split. */
  readonly handOverMs: number
  readonly now: number
}

const kindOf = (spec: EngineSpec): string => spec.profile ?? DEFAULT_PROFILE
const priorOf = (spec: EngineSpec): PrefillCostModel => profile(kindOf(spec)) ?? profile(DEFAULT_PROFILE)!
