import { newTokens, queueSeconds, type PrefillCostModel } from '../latency/prefill-cost-model.ts'
import { DEFAULT_PROFILE, profile } from '../latency/profiles.ts'
import { DEFAULT_LOADING_COSTS, loadingCosts, type LoadingCosts } from '../latency/loading-costs.ts'
import { KvEventCursor } from '../kv-events/event-cursor.ts'
import type { KvEventDelta, KvEventDeltaState } from '../kv-events/event-delta.ts'
import type { LoadStats } from './load-stats.ts'
import { ActiveBlocks, shapeOf } from '../prefix-index/active-blocks.ts'
import { endsAtFirstToken } from '../contract/legs.ts'
import type { Admission } from '../contract/admission.ts'
import type { EngineDigest } from '../contract/pool-digest.ts'
import { type EngineSpec, type PoolConfig, isOpaque } from '../contract/pool-config.ts'
import type { EngineStats } from '../contract/engine-signal.ts'
import type { Outcome } from '../contract/outcome.ts'
import type { StageTimes } from '../contract/stages.ts'
import { EngineEstimators } from './estimators/engine-estimators.ts'
import { ExpectedTimes } from './condition/expected-times.ts'
import { HardwareClass } from './estimators/hardware-class.ts'
import { endUnstreamed, judgePrediction, learn, prefillEnded, learnStep } from './estimators/learn-from-outcome.ts'
import { estimatorDigest } from './estimators/estimator-digest.ts'
import { LEARNED_VERSION, learnedOf, readLearned, relearn } from './estimators/learned-snapshot.ts'
import { UsualOutput } from './estimators/usual-output.ts'
import type { EngineEstimate } from '../contract/region-digest.ts'
import { prefillWork } from '../latency/prefill-work.ts'
import { PrefixIndex } from '../prefix-index/prefix-index.ts'
import { endPresumed, type LegEntry, type LedgerEntry } from './ledger-entry.ts'
import type { BookedLegs, EngineRef, Leg, LegDone } from './booking-ref.ts'
import { predictionFor } from './signals/engine-prediction.ts'
import { untilPlaceS, untilStartS } from './signals/expected-wait.ts'
import { SignalReader } from './signals/signal-reader.ts'
import type { SignalSources } from './signals/signal-sources.ts'
import { tokensPerBlock } from './block-tokens.ts'

/**
 * Ledger of a pool: live and cached blocks, queued prefill work, and estimators per engine. Everything is booked at
 * the time of the decision.
 */
export class PoolLedger {
  readonly #load: LoadStats
  readonly #index = new PrefixIndex(1)
  readonly #active = new ActiveBlocks(this.#index)
  /** Shared estimators by hardware profile. */
  readonly #hardwareClasses = new Map<string, HardwareClass>()
  #blockTokens = 0
  /** Objective of the time between tokens; null: none. */
  #itlMs: number | null = null
  /** Data of the signal readers; replaced when the block size changes. */
  sources: SignalSources
  #firstAddedAt: number | null = null
  readonly #usualOutput = new UsualOutput()

  /** @param load statistics whose signals the readers fill, too */
  constructor(load: LoadStats) {
    this.#load = load
    this.sources = this.#sourcesOf(0, DEFAULT_LOADING_COSTS)
  }

  /** (block, engine) entries of the prefix index, and the bytes of all its tables. */
  get indexSize(): { readonly entries: number; readonly bytes: number } {
    return { entries: this.#index.entries, bytes: this.#index.bytes }
  }

  configure(pool: PoolConfig, engines: readonly EngineRef[]): void {
    this.#index.limit(Math.max(1, pool.indexEntries))
    this.#itlMs = pool.slo?.itlMs ?? null
    for (const engine of engines) this.#reconfigure(engine, pool.blockTokens)
    this.#blockTokens = pool.blockTokens
    this.sources = this.#sourcesOf(pool.blockTokens, loadingCosts(pool.policy.options))
  }

  /** Returns the estimators of a new engine. */
  engineAdded(spec: EngineSpec, now: number): EngineEstimators {
    this.#firstAddedAt ??= now
    // Engines that start together have no warm engine to compare with.
    const warmSince = now === this.#firstAddedAt ? -Infinity : now
    const estimators = new EngineEstimators(this.#index.addEngine(), {
      hardwareClass: this.#hardwareClassOf(spec),
      prior: priorOf(spec),
      warmSince,
    })
    estimators.capacity.declare(spec.cacheBlocks)
    estimators.stepLimit.configure(this.#itlMs)
    this.#limit(estimators)
    return estimators
  }

  engineForgotten({ estimators }: EngineRef): void {
    this.#index.removeEngine(estimators.number)
    estimators.hardwareClass.forgotten(estimators)
  }

  /** Prefill work of bookings without a first token, seconds. */
  queuedPrefillS(engine: EngineRef, now: number): number {
    const { queue } = engine.estimators
    queue.settle(now)
    return queue.seconds(now)
  }

  /** Times that the engine should need. */
  expected(engine: EngineRef, now: number): ExpectedTimes {
    const { estimators } = engine
    return new ExpectedTimes({
      engine,
      estimators,
      sources: this.sources,
      outputTokens: this.#usualOutput.tokens,
      now,
    })
  }

  /** Records that the step limit of an engine refused or moved a request. */
  stepLimited(engine: EngineRef, now: number): void {
    engine.estimators.stepLimit.refused(now)
  }

  revived(engine: EngineRef): void {
    engine.estimators.revived(this.#index.stamp)
  }

  /** The cache of an engine is empty now. */
  readonly emptied = (engine: EngineRef): void => this.#index.flush(engine.estimators.number)

  /** The engine is as fast as before. */
  readonly recovered = (engine: EngineRef): void => engine.estimators.recovered()

  /** What the engine has cached for the adapter is of no use any more. */
  readonly adapterUnloaded = (engine: EngineRef, adapter: string): void =>
    engine.estimators.adapters.unloaded(adapter, this.#index.stamp)

  observed(engine: EngineRef, stats: EngineStats, now: number): void {
    const { estimators } = engine
    const cached = estimators.caches(engine.spec)
    estimators.observed(stats, this.#blockTokens, engine.spec)
    if (cached && !estimators.caches(engine.spec)) this.#index.flush(estimators.number)
    this.#limit(estimators)
    estimators.feed?.discardSilent(this.#index, { engine: estimators.number, now })
    const { running, waiting, kvUsage } = stats
    const capacity = estimators.capacity.declared
    const usedBlocks = kvUsage === null || capacity === null ? null : kvUsage * capacity
    const activeBlocks = this.#active.active(estimators.number)
    estimators.queue.settle(now)
    const { queue, usualPrefillS } = estimators
    this.#load.observed(
      engine,
      { running, waiting, usedBlocks },
      { activeBlocks, queued: queue.length, usualPrefillS, prefilledS: estimators.prefilledS(now), at: now },
    )
    if (engine.spec.role === 'any' || engine.spec.role === 'decode')
      estimators.places.reported(running, waiting, { hasMemory: kvUsage !== null && kvUsage < MEMORY_SHARE, now })
  }

  applyKvEvents(engine: EngineRef, feed: KvEventDelta, now: number): KvEventDeltaState {
    const { estimators } = engine
    return feed.blockTokens === this.#blockTokens
      ? (estimators.feed ??= new KvEventCursor()).apply(feed, this.#index, { engine: estimators.number, now })
      : 'block_tokens'
  }

  /** Books the legs of a request. @param reading reader of the decision; absent: it is booked again */
  addBooking({ admission, legs: booked }: BookedLegs, now: number, reading?: SignalReader): LedgerEntry {
    const source = reading ?? this.read(admission, now, [])
    const decode = booked.length < 2 ? undefined : booked.find(({ legRole }) => legRole === 'decode')
    const kvTransferMs =
      decode === undefined ? 0 : decode.engine.estimators.kvTransfer.expectedMs(admission.promptTokens)
    const computing = booked.some(isEncoding) ? booked.filter((leg) => !isEncoding(leg)) : booked
    const legs = computing.map((leg) =>
      this.#addLeg(leg, admission, {
        reading: source,
        isResumed: reading === undefined || isOpaque(leg.engine.spec),
        kvTransferMs,
        now,
      }),
    )
    const blockShare = tokensPerBlock(admission, this.#blockTokens) / this.#blockTokens
    this.#active.learnScale(blockShare, admission.blocks.length >> 1)
    if (this.#active.scale !== 1) for (const leg of legs) this.#limit(leg.estimators)
    return {
      admission,
      legs,
      firstTokenAt: null,
      seen: false,
      running: 0,
      blocks: 0,
      prefilledS: 0,
      reported: null,
    }
  }

  legDone(request: LedgerEntry, { legRole, stages, usage = null }: LegDone, now: number): void {
    for (const leg of request.legs) {
      if (leg.legRole !== legRole || leg.live === null) continue
      leg.usage = usage
      prefillEnded(leg, stages, now)
      this.#endLeg(leg, request.admission)
    }
  }

  firstToken(request: LedgerEntry, stages: StageTimes, now: number): void {
    request.firstTokenAt = now
    for (const leg of request.legs) {
      // First, because a first token that waited for a place says nothing about the speed.
      if (!endsAtFirstToken(leg.legRole)) this.#placeTaken(leg, request.admission.sequences ?? 1, now)
      if (leg.queued?.ended === true) judgePrediction(leg, stages)
      else prefillEnded(leg, stages, now)
      if (endsAtFirstToken(leg.legRole)) this.#endLeg(leg, request.admission)
      else {
        endPresumed(leg)
        this.#received(leg, request.admission)
        if (leg.legRole === 'decode' && stages.first_byte !== undefined)
          leg.estimators.kvTransfer.learn(request.admission.promptTokens, stages.first_byte)
        leg.estimators.addUnparsed(now, request.admission.sequences)
        request.running = leg.estimators.requests
        request.blocks = this.#active.active(leg.estimators.number)
        request.prefilledS = leg.estimators.prefilledS(now)
      }
    }
  }

  progress(request: LedgerEntry, outputBlocks: number, now: number): void {
    const { expectedOutputTokens } = request.admission
    for (const leg of request.legs) {
      if (leg.live === null || endsAtFirstToken(leg.legRole)) continue
      this.#active.output(leg.live, outputBlocks)
      learnStep(leg, request, { outputBlocks, blockTokens: this.#blockTokens, now })
      if (expectedOutputTokens !== null)
        this.#active.decay(leg.live, (outputBlocks * this.#blockTokens) / Math.max(1, expectedOutputTokens))
    }
    request.reported = { outputBlocks, at: now }
    this.#markSeen(request)
  }

  release(request: LedgerEntry, outcome: Outcome, now: number): void {
    const { admission } = request
    // A request that was never prefilled leaves no new blocks. The engine of an expired one has probably continued.
    const prefilled = request.firstTokenAt !== null || outcome.result === 'complete' || outcome.result === 'lapsed'
    this.#markSeen(request)
    const context = { now, index: this.#index, blockTokens: this.#blockTokens }
    if (request.firstTokenAt === null) endUnstreamed(request, outcome, this.sources, now)
    for (const leg of request.legs) {
      if (leg.queued !== null) leg.estimators.queue.abandon(leg.queued, now, outcome.result === 'complete')
      if (leg.queued !== null && !prefilled) leg.estimators.prefillShare.add(-leg.queued.seconds, now)
      endPresumed(leg)
      if (prefilled && request.firstTokenAt === null) this.#received(leg, admission)
      if (!endsAtFirstToken(leg.legRole))
        leg.estimators.places.ended(admission.sequences ?? 1, admission.streams === true, {
          startedAt: request.firstTokenAt,
          now,
        })
      this.#endLeg(leg, admission, prefilled ? Infinity : leg.estimate.indexBlocks)
    }
    for (const { estimators } of request.legs)
      if (estimators.prefillFitter.samples === 0) estimators.prefillFitter.setPrior(estimators.costModel(now))
    learn(request, outcome, context)
    this.#usualOutput.learn(outcome, admission.sequences)
    for (const { estimators } of request.legs) estimators.hardwareClass.learned(estimators)
  }

  read(admission: Admission, now: number, engines: readonly EngineRef[]): SignalReader {
    return new SignalReader(this.sources, admission, { now, engines })
  }

  /** Estimate for a prompt of any size, from the terms of a prediction that do not depend on it. */
  estimate(engine: EngineRef, now: number): EngineEstimate {
    const { estimators } = engine
    const { queue } = estimators
    queue.settle(now)
    const foreign = this.#load.foreign(engine, now, estimators)
    const placeWaitS = untilPlaceS({}, estimators, foreign, now)
    return {
      waitS: engine.spec.rttMs / 1000 + untilStartS(estimators, foreign, placeWaitS, now),
      queued: queue.length,
      costModel: estimators.presentCostModel(now),
      confidence: estimators.prefillFitter.confidence,
    }
  }

  readonly sample = (limit: number): Uint32Array => this.#index.sample(limit)

  digest(engine: EngineRef, now: number): Partial<EngineDigest> {
    const { estimators } = engine
    return estimatorDigest(estimators, {
      costModel: estimators.prefillFitter.samples > 0 ? estimators.prefillFitter.costModel : estimators.costModel(now),
      activeBlocks: this.#active.active(estimators.number),
      cachedBlocks: Math.round(this.#active.scale * this.#index.cachedBlocks(estimators.number)),
      now,
    })
  }

  snapshot(engines: readonly EngineRef[]): unknown {
    const learned = engines.map(({ spec, estimators }) => [spec.id, learnedOf(estimators)] as const)
    return { version: LEARNED_VERSION, engines: Object.fromEntries(learned) }
  }

  restore(data: unknown, engines: readonly EngineRef[]): void {
    const learned = readLearned(data)
    if (learned === null) return
    for (const { spec, estimators } of engines) {
      const own = learned.get(spec.id)
      if (own === undefined) continue
      relearn(estimators, own)
      this.#limit(estimators)
    }
  }

  #reconfigure({ spec, estimators }: EngineRef, blockTokens: number): void {
    // Blocks of another size have other hashes, so nothing in the index matches again.
    if (this.#blockTokens !== blockTokens || !estimators.caches(spec)) this.#index.flush(estimators.number)
    estimators.stepLimit.configure(this.#itlMs)
    estimators.described(spec, {
      hardwareClass: this.#hardwareClassOf(spec),
      prior: priorOf(spec),
      factor: this.#blockTokens / blockTokens,
    })
    this.#limit(estimators)
  }

  /** Sets the engine's capacity in the index. */
  #limit(estimators: EngineEstimators): void {
    estimators.capacity.scale = this.#active.scale
    this.#index.setCapacity(estimators.number, estimators.capacity.blocks)
  }

  #addLeg(leg: Leg, admission: Admission, { reading, isResumed, kvTransferMs, now }: LegStart): LegEntry {
    const { engine, legRole } = leg
    const { estimators } = engine
    const prefills = legRole !== 'decode'
    const prediction = prefills ? predictionFor(reading, engine) : null
    estimators.queue.settle(now)
    const cached = reading.prompt.cached(engine)
    const size = { promptTokens: admission.promptTokens, cachedTokens: cached.total }
    const estimate = {
      cached,
      indexBlocks: reading.prompt.indexBlocks(engine),
      uncertainTokens: estimators.queue.isEmpty ? 0 : reading.prompt.tokensOf(this.#index.live[estimators.number]!),
      stamp: this.#index.stamp,
      usedStamp: this.#index.lastUsed(estimators.number),
      ttftMs: prediction === null ? null : 1000 * prediction.firstTokenS + kvTransferMs,
      prediction,
      behindOthers: !estimators.queue.isEmpty,
      adapterFit: estimators.adapters.fit(admission.adapter),
    }
    const prefill = {
      newTokens: newTokens(size),
      work: prefillWork(size.promptTokens, size.cachedTokens),
      seconds: queueSeconds(estimators.costModel(now), size),
      // The response of a prefill leg marks its end.
      streams: legRole === 'prefill' || admission.streams,
      sequences: admission.sequences,
      isBusy: estimators.requests > 0,
    }
    const queued = prefills ? estimators.queuePrefill(prefill, now) : null
    const shared = prefills ? reading.prompt.shape.blockCount : estimate.indexBlocks
    const live = this.#active.add(estimators.number, reading.prompt.shape, reading.prompt.shares(engine), shared)
    estimators.requests += 1
    const sequences = admission.sequences ?? 1
    const needsPlace = estimators.places.excess(sequences + this.#load.foreignRequests(engine, now)) > 0
    if (!endsAtFirstToken(legRole)) estimators.places.booked(sequences, admission.streams === true)
    if (admission.adapter !== null) estimators.adapters.begin(admission.adapter)
    return {
      engine,
      estimators: estimators,
      legRole,
      isResumed,
      live,
      queued,
      estimate,
      busyPeriod: null,
      firstTokenInexact: legRole === 'whole' && needsPlace,
      prefillMs: null,
      usage: null,
    }
  }

  /** Records that the engine runs the request. */
  #placeTaken(leg: LegEntry, sequences: number, now: number): void {
    const { estimators, estimate, queued } = leg
    estimators.places.started(sequences, now)
    if (leg.legRole !== 'whole' || leg.isResumed || queued === null || estimate.prediction === null) return
    const capacity = estimators.capacity.declared
    if (capacity === null || this.#active.active(estimators.number) > MEMORY_SHARE * capacity) return
    const late = { bookedAt: queued.bookedAt, predictedMs: 1000 * estimate.prediction.workS, now }
    if (estimators.places.firstToken(late)) leg.firstTokenInexact = true
  }

  /** Shares the transferred blocks of a decode leg. vLLM caches them on arrival, for NIXL and LMCache alike. */
  #received({ legRole, live }: LegEntry, { blocks, promptTokens }: Admission): void {
    if (legRole === 'decode' && live !== null)
      this.#active.received(live, shapeOf(blocks, promptTokens, this.#blockTokens))
  }

  #endLeg(leg: LegEntry, admission: Admission, keepBlocks = Infinity): void {
    if (leg.live === null) return
    this.#active.free(leg.live, keepBlocks)
    // A request that computes all of its prompt shares no block, but the engine caches them.
    if (leg.live.pin === null && keepBlocks === Infinity && leg.estimators.caches(leg.engine.spec)) {
      this.#index.release(this.#index.pin(leg.estimators.number, admission.blocks, admission.blocks.length >> 1))
    }
    leg.estimators.feed?.requestEnded(admission.blocks, this.#index, keepBlocks === Infinity)
    leg.live = null
    leg.estimators.requests -= 1
    if (admission.adapter !== null) leg.estimators.adapters.end(admission.adapter)
  }

  /** Ends the estimate of a request's output. */
  #markSeen(request: LedgerEntry): void {
    if (request.seen || request.firstTokenAt === null) return
    request.seen = true
    for (const { estimators, legRole } of request.legs)
      if (!endsAtFirstToken(legRole)) estimators.removeUnparsed(request.firstTokenAt, request.admission.sequences)
  }

  #sourcesOf(blockTokens: number, loading: LoadingCosts): SignalSources {
    return {
      index: this.#index,
      active: this.#active,
      load: this.#load,
      blockTokens,
      loading,
      output: this.#usualOutput,
    }
  }

  #hardwareClassOf(spec: EngineSpec): HardwareClass {
    const name = profileOf(spec)
    const known = this.#hardwareClasses.get(name) ?? new HardwareClass()
    this.#hardwareClasses.set(name, known)
    return known
  }
}

/** Share of KV memory in use above which requests may wait for memory. */
const MEMORY_SHARE = 0.8

interface LegStart {
  readonly reading: SignalReader
  readonly isResumed: boolean
  /** From the prefill's end on another engine to the first token, milliseconds; 0: not split. */
  readonly kvTransferMs: number
  readonly now: number
}

/** An encoder computes no blocks. */
const isEncoding = ({ legRole }: Leg): boolean => legRole === 'encode'

const profileOf = (spec: EngineSpec): string => spec.profile ?? DEFAULT_PROFILE
const priorOf = (spec: EngineSpec): PrefillCostModel => profile(profileOf(spec)) ?? profile(DEFAULT_PROFILE)!
