import { type DecodeLaw, DecodeLearner, KvTransferModel } from '../latency/decode.ts'
import { BetterPrediction, IN_STEPS, OF_WORK, UsualDelay } from '../latency/step-delay.ts'
import { CostModelFitter } from '../latency/cost-model-fitter.ts'
import type { PrefillCostModel } from '../latency/cost-model.ts'
import { CacheFeedback, CacheCapacity } from './cache-feedback.ts'
import type { EngineSpec, EngineStats } from '../contract/contract.ts'
import { KvEventCursor } from '../kv-events/delta-log.ts'
import { PrefillWork, StepLimit } from '../overload/step-limit.ts'
import { type Prefill, PrefillQueue, type QueuedPrefill } from './prefill-queue.ts'

/** Weight of the latest prefill in the usual one. */
const USUAL_SHARE = 0.1
/** Consecutive observations after which the limit counts as known. */
const OBSERVATIONS = 3
/** A first token is late beyond this multiple of its prediction plus `LATE_MS`. */
const LATE_TIMES = 2
const LATE_MS = 50
/** Weight of the latest response in the usual time from first token to end. */
const LATEST_SHARE = 0.1
/** Time after which the largest number of running sequences is measured again while no limit is known, milliseconds. */
const WINDOW_MS = 300_000

interface LateFirstToken {
  readonly bookedAt: number
  readonly predictedMs: number
  readonly now: number
}

/**
 * Places of an engine: the sequences that it runs at the same time (`max_num_seqs` of vLLM), which engines do not
 * report. Learned from requests that wait although the engine has memory: three times in a row while as many sequences
 * run as were ever seen to run. More running sequences refute it.
 */
export class Places {
  /** Booked sequences, and those with a first token. */
  #booked = 0
  #running = 0
  /** Booked sequences whose first token cannot be seen. */
  #silent = 0
  /** Sum of the first-token times of the running sequences, milliseconds. */
  #startedSum = 0
  /** Largest number of running sequences, and that of the present window. */
  #most = 0
  #mostOfWindow = 0
  #windowSince = 0
  #observations = 0
  /** Last time at which a sequence ended while the largest number ran. */
  #freedAt = -Infinity
  /** Usual time from a sequence's first token to its end, milliseconds; null: none seen. */
  #usualMs: number | null = null

  /** Places of the engine; Infinity: unknown. */
  get limit(): number {
    return this.#observations >= OBSERVATIONS ? this.#most : Infinity
  }

  booked(sequences: number, streams: boolean): void {
    this.#booked += sequences
    if (!streams) this.#silent += sequences
  }

  started(sequences: number, now: number): void {
    this.#running += sequences
    this.#startedSum += sequences * now
    this.#saw(this.#running, now)
  }

  /** Records the end of a booking. @param startedAt time of its first token; null: none */
  ended(sequences: number, streams: boolean, { startedAt, now }: { startedAt: number | null; now: number }): void {
    this.#booked -= sequences
    if (!streams) this.#silent -= sequences
    if (startedAt === null) return
    if (this.#running >= this.#most) this.#freedAt = now
    this.#running -= sequences
    this.#startedSum -= sequences * startedAt
    this.#usualMs =
      this.#usualMs === null ? now - startedAt : this.#usualMs + LATEST_SHARE * (now - startedAt - this.#usualMs)
  }

  /**
   * Records a first token, after `started`: evidence if it was late, waited for the end of another sequence while all
   * places were taken, and came as soon after that as predicted.
   */
  firstToken({ bookedAt, predictedMs, now }: LateFirstToken): boolean {
    if (this.#silent > 0 || this.#running < this.#most || bookedAt >= this.#freedAt) return false
    const dueMs = LATE_TIMES * predictedMs + LATE_MS
    const waited = now - bookedAt > dueMs && now - this.#freedAt <= dueMs
    if (waited) this.#observations += 1
    return waited
  }

  /** Records the engine's report. @param hasMemory whether requests can only wait for a place */
  reported(running: number, waiting: number, { hasMemory, now }: { hasMemory: boolean; now: number }): void {
    this.#saw(running, now)
    if (waiting > 0 && running > 0 && running === this.#most && hasMemory) this.#observations += 1
  }

  /** Discards the learned limit: the engine restarted. */
  restarted(): void {
    this.#observations = 0
    this.#most = this.#running
  }

  /** Returns the number of sequences that wait for a place, with `more` further ones. */
  excess(more: number): number {
    return Math.max(0, this.#booked + more - this.limit)
  }

  /**
   * Seconds until a place is free for the last of `more` further sequences. The running ones end evenly spread over
   * twice their mean remaining time.
   */
  waitS(more: number, now: number): number {
    const excess = this.excess(more)
    if (excess === 0 || this.#usualMs === null) return 0
    const usualMs = this.#usualMs
    const meanAgeMs = this.#running === 0 ? 0 : now - this.#startedSum / this.#running
    const remainingMs = Math.max(usualMs / 4, usualMs - meanAgeMs)
    return (excess * 2 * remainingMs) / (this.limit + 1) / 1000
  }

  #saw(running: number, now: number): void {
    if (this.#observations < OBSERVATIONS && now - this.#windowSince > WINDOW_MS) {
      this.#most = this.#mostOfWindow
      this.#mostOfWindow = 0
      this.#windowSince = now
      this.#observations = 0
    }
    this.#mostOfWindow = Math.max(this.#mostOfWindow, running)
    if (running <= this.#most) return
    this.#most = running
    this.#observations = 0
  }
}

/** LoRA adapters that an engine probably has loaded: from its own report and from the requests sent since. */
export class LoadedAdapters {
  #reported: ReadonlySet<string> = new Set()
  #max: number | null = null
  /** Live requests by adapter. */
  readonly #live = new Map<string, number>()
  /** Adapters sent, least recently used first; the engine keeps them while it has room. */
  readonly #sent = new Set<string>()

  observed(adapters: NonNullable<EngineStats['adapters']>): void {
    this.#reported = new Set(adapters.running)
    this.#max = adapters.max
  }

  begin(adapter: string): void {
    this.#live.set(adapter, (this.#live.get(adapter) ?? 0) + 1)
    this.#sent.delete(adapter)
    this.#sent.add(adapter)
    const room = Math.max(this.#max ?? SENT_KEPT, this.#live.size)
    for (const oldest of this.#sent) {
      if (this.#sent.size <= room) break
      if (!this.#live.has(oldest)) this.#sent.delete(oldest)
    }
  }

  end(adapter: string): void {
    const left = (this.#live.get(adapter) ?? 1) - 1
    if (left === 0) this.#live.delete(adapter)
    else this.#live.set(adapter, left)
  }

  /** Affinity: 1 loaded or none needed, 0 must be loaded, -1 no room, because the maximum is running. */
  fit(adapter: string | null): 1 | 0 | -1 {
    if (adapter === null || this.#reported.has(adapter) || this.#sent.has(adapter)) return 1
    return this.#max !== null && this.#live.size >= this.#max ? -1 : 0
  }
}

/** Adapters remembered for an engine that does not report its maximum. */
const SENT_KEPT = 64

/** Warm-up time of a new or restarted engine, milliseconds: CUDA graphs, caches, clocks. */
const WARM_AFTER_MS = 30_000
const ERROR_DECAY = 0.05
/**
 * Interval at which cost models are blended again, milliseconds. Confidence decays within seconds, and a blend costs
 * as much as the prices of a dozen engines.
 */
const TICK_MS = 100
/** Maximum estimated output tokens of a response that is not parsed. */
const MOST_UNSEEN_TOKENS = 4096

/**
 * Estimators shared by engines of one hardware profile: the start for new engines, and the fallback for uncertain
 * ones.
 */
export class HardwareClass {
  /** Engine with the highest confidence. */
  surest: EngineEstimators | null = null
  /** Fits decode times of all its engines. */
  readonly decode = new DecodeLearner()
  /** The same without the delays by prefills. */
  readonly step = new DecodeLearner()

  /** Records that an engine's fit changed: it may now have the highest confidence. */
  learned(book: EngineEstimators): void {
    if (book.learner.samples === 0) return
    if (this.surest === null || book.learner.confidence > this.surest.learner.confidence) this.surest = book
  }

  forgotten(book: EngineEstimators): void {
    if (this.surest === book) this.surest = null
  }
}

/** Estimators of one engine: everything learned except its blocks. */
export class EngineEstimators {
  /** Its number in the prefix index. */
  readonly number: number
  kind: HardwareClass
  readonly queue = new PrefillQueue(
    (sample) => this.learner.learn(sample),
    (at, { sequences }) => this.unseenFrom(at, sequences),
  )
  readonly learner: CostModelFitter
  readonly decode = new DecodeLearner()
  /** Duration of its decode steps, without the delays by prefills. */
  readonly step = new DecodeLearner()
  readonly prefillWork = new PrefillWork()
  readonly prediction = new BetterPrediction()
  readonly stepDelay = new UsualDelay(IN_STEPS)
  /** Beyond the queued work, for the checks of objectives. */
  readonly workDelay = new UsualDelay(OF_WORK)
  readonly feedback = new CacheFeedback()
  readonly capacity = new CacheCapacity()
  readonly adapters = new LoadedAdapters()
  readonly places = new Places()
  readonly handOver = new KvTransferModel()
  /** Limit of its decode step under overload. */
  readonly stepLimit = new StepLimit()
  /** Cursor of its KV events, if a bridge sends them. */
  readonly feed = new KvEventCursor()
  /** Block size of the engine in tokens; it reuses whole blocks only. 1: unknown. */
  engineBlockTokens = 1
  /** Live requests. */
  requests = 0
  /** Moving mean of the gateway's own prefills, seconds. */
  usualPrefillS = 0
  #warmSince: number
  /** Stamp of the index at its last recovery. */
  revivedStamp = 0
  // Every decision reads the models of all engines, and blends change slowly.
  #costModel: PrefillCostModel
  #lawTick = NaN
  #lawSamples = 0
  #sibling: PrefillCostModel | null = null
  #decodeCostModel: DecodeLaw | null = null
  #decodeLawTick = NaN
  #reportsCaching: boolean | null = null
  /** Reported capacity in blocks of the pool's size; null: unknown. */
  #reportedBlocks: number | null = null
  /** Decayed mean of |actual - predicted| / actual TTFT; null: none seen. */
  #ttftError: number | null = null
  // Output of streams that are not parsed is estimated: their number and the sum of their first-token times give the
  // total.
  #unseen = 0
  #unseenSince = 0

  constructor(
    number: number,
    {
      kind,
      prior,
      warmSince,
    }: { readonly kind: HardwareClass; readonly prior: PrefillCostModel; readonly warmSince: number },
  ) {
    this.number = number
    this.kind = kind
    this.learner = new CostModelFitter(prior)
    this.#warmSince = warmSince
    this.#costModel = prior
  }

  /**
   * Returns the prefill cost model, blended with the profile's by confidence. Cached for a moment, except after new
   * samples.
   */
  costModel(now: number): PrefillCostModel {
    const tick = Math.floor(now / TICK_MS)
    const { surest } = this.kind
    const sibling = surest === null || surest === this ? null : surest.learner.costModel
    if (this.#lawTick !== tick || this.#sibling !== sibling || this.#lawSamples !== this.learner.samples) {
      this.#costModel = sibling === null ? this.learner.costModel : this.learner.lawBeside(sibling, tick * TICK_MS)
      this.#lawTick = tick
      this.#sibling = sibling
      this.#lawSamples = this.learner.samples
    }
    return this.#costModel
  }

  /** Returns the decode cost model, cached for a moment. */
  decodeCostModel(blockTokens: number, now: number): DecodeLaw {
    const tick = Math.floor(now / TICK_MS)
    if (this.#decodeCostModel === null || this.#decodeLawTick !== tick) {
      this.#decodeCostModel = this.decode.lawBeside(this.kind.decode, blockTokens, tick * TICK_MS)
      this.#decodeLawTick = tick
    }
    return this.#decodeCostModel
  }

  /** Books a prefill, before its request is counted. */
  queuePrefill(prefill: Prefill, now: number): QueuedPrefill {
    this.prefillWork.add(prefill.seconds, now)
    this.usualPrefillS += USUAL_SHARE * (prefill.seconds - this.usualPrefillS)
    return this.queue.add({ ...prefill, isBusy: this.requests > 0 }, now)
  }

  /** Seconds of prefill work that were done since the start. */
  prefilledS(now: number): number {
    return this.prefillWork.totalS - this.queue.seconds(now)
  }

  observed(stats: EngineStats, poolBlockTokens: number, spec: EngineSpec): void {
    this.#reportsCaching = stats.prefixCaching ?? this.#reportsCaching
    const blockTokens = stats.blockTokens !== null && stats.blockTokens > 0 ? stats.blockTokens : null
    if (stats.cacheBlocks !== null)
      this.#reportedBlocks = stats.cacheBlocks * ((blockTokens ?? poolBlockTokens) / poolBlockTokens)
    this.capacity.declare(spec.cacheBlocks ?? this.#reportedBlocks)
    this.engineBlockTokens = blockTokens ?? this.engineBlockTokens
    if (stats.adapters !== null) this.adapters.observed(stats.adapters)
  }

  /**
   * Applies a new configuration. Learned values stay, even with another profile.
   * @param factor ratio of the old block size to the new one
   */
  described(
    spec: EngineSpec,
    {
      kind,
      prior,
      factor,
    }: { readonly kind: HardwareClass; readonly prior: PrefillCostModel; readonly factor: number },
  ): void {
    if (this.#reportedBlocks !== null) this.#reportedBlocks *= factor
    this.capacity.rescale(factor)
    this.capacity.declare(spec.cacheBlocks ?? this.#reportedBlocks)
    if (kind === this.kind) return
    this.kind.forgotten(this)
    this.kind = kind
    this.learner.setPrior(prior)
    kind.learned(this)
    this.#lawTick = NaN
    this.#decodeLawTick = NaN
  }

  /** Whether the engine caches prefixes. `auto`: as reported, and yes until then. */
  caches(spec: EngineSpec): boolean {
    return spec.prefixCaching === 'auto' ? this.#reportsCaching !== false : spec.prefixCaching === 'on'
  }

  /** Returns the tokens in whole blocks of the engine. */
  wholeBlocks(tokens: number): number {
    return tokens - (tokens % this.engineBlockTokens)
  }

  restarted(now: number): void {
    this.#warmSince = now
    this.places.restarted()
  }

  /**
   * Records the recovery of the engine.
   * @param stamp current stamp of the index
   */
  revived(stamp: number): void {
    this.revivedStamp = stamp
    this.feedback.revived()
  }

  wasAwayAfter(stamp: number): boolean {
    return ((stamp - this.revivedStamp) | 0) <= 0
  }

  warmth(now: number): number {
    return Math.min(1, Math.max(0, (now - this.#warmSince) / WARM_AFTER_MS))
  }

  get hasUnseen(): boolean {
    return this.#unseen > 0
  }

  /** @param sequences responses that have started */
  unseenFrom(firstTokenAt: number, sequences = 1): void {
    this.#unseen += sequences
    this.#unseenSince += sequences * firstTokenAt
  }

  seen(firstTokenAt: number, sequences = 1): void {
    this.unseenFrom(firstTokenAt, -sequences)
  }

  /** Estimated output blocks of streams that are not parsed. */
  unseenBlocks(now: number, blockTokens: number, tokenS: number): number {
    if (this.#unseen === 0) return 0
    const tokens = Math.max(0, this.#unseen * now - this.#unseenSince) / 1000 / tokenS
    return Math.min(tokens, this.#unseen * MOST_UNSEEN_TOKENS) / blockTokens
  }

  get ttftError(): number | null {
    return this.#ttftError
  }

  judgeTtft(predictedMs: number, actualMs: number): void {
    if (!(actualMs > 0)) return
    const error = Math.min(10, Math.abs(actualMs - predictedMs) / actualMs)
    this.#ttftError = this.#ttftError === null ? error : this.#ttftError + ERROR_DECAY * (error - this.#ttftError)
  }
}
