import { type DecodeLaw, DecodeLearner, KvTransferModel } from '../latency/decode.ts'
import { CostModelFitter } from '../latency/cost-model-fitter.ts'
import type { PrefillCostModel } from '../latency/cost-model.ts'
import { CacheFeedback, CacheCapacity } from './cache-feedback.ts'
import type { EngineSpec, EngineStats } from '../contract/contract.ts'
import { KvEventCursor } from '../kv-events/event-cursor.ts'
import { PrefillQueue } from './prefill-queue.ts'

/** Which adapters an engine has loaded, as far as can be known: its own report, and what we have sent it since. */
export class LoadedAdapters {
  #reported: ReadonlySet<string> = new Set()
  #max: number | null = null
  /** Live requests by adapter. */
  readonly #live = new Map<string, number>()
  /** Adapters sent, least recently first: what it holds as long as there is room. */
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

  /** 1: loaded, or none is asked for. 0: must be loaded. -1: as many as the engine may run at once are running. */
  fit(adapter: string | null): 1 | 0 | -1 {
    if (adapter === null || this.#reported.has(adapter) || this.#sent.has(adapter)) return 1
    return this.#max !== null && this.#live.size >= this.#max ? -1 : 0
  }
}

/** Adapters remembered of an engine that does not say how many it holds. */
const SENT_KEPT = 64

/** How long a new or restarted engine is spared: CUDA graphs, caches and clocks take their time. */
const WARM_AFTER_MS = 30_000
const ERROR_DECAY = 0.05
/** How often laws are mixed anew: what an engine showed fades within seconds, and a mix costs as much as a dozen engines' prices. */
const TICK_MS = 100
/** Unseen output is taken to end here, however long its request lives. */
const MOST_UNSEEN_TOKENS = 4096

/** What engines of one hardware profile have in common: where a new one starts, and what one that is unsure of itself goes by. */
export class HardwareClass {
  /** Whose law is surest. */
  surest: EngineEstimators | null = null
  /** Learns from all of them. */
  readonly decode = new DecodeLearner()

  /** It has learned something: is it the surest now? */
  learned(book: EngineEstimators): void {
    if (book.learner.samples === 0) return
    if (this.surest === null || book.learner.confidence > this.surest.learner.confidence) this.surest = book
  }

  forgotten(book: EngineEstimators): void {
    if (this.surest === book) this.surest = null
  }
}

/** What is known and learned of one engine, but for the blocks it holds. */
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
  readonly feedback = new CacheFeedback()
  readonly capacity = new CacheCapacity()
  readonly adapters = new LoadedAdapters()
  readonly handOver = new KvTransferModel()
  /** Its KV events, where a bridge passes them on. */
  readonly feed = new KvEventCursor()
  /** Tokens a block as the engine cuts them: it reuses no part of one. 1: it has not said. */
  engineBlockTokens = 1
  /** Live requests. */
  requests = 0
  #warmSince: number
  /** When it last came back, by the index's stamp. */
  revivedStamp = 0
  // Every choice asks for the laws of all engines, and how they mix changes slowly.
  #costModel: PrefillCostModel
  #lawTick = NaN
  #lawSamples = 0
  #sibling: PrefillCostModel | null = null
  #decodeCostModel: DecodeLaw | null = null
  #decodeLawTick = NaN
  #reportsCaching: boolean | null = null
  /** KV blocks of the pool's size that it says it can hold; null: it has not said. */
  #reportedBlocks: number | null = null
  /** Decayed mean of |actual - predicted| / actual TTFT; null: none seen. */
  #ttftError: number | null = null
  // Output of requests whose stream nobody reads grows unseen: their number and the sum of their first tokens' times
  // give what they have produced in all.
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

  /** What its prefills are expected to take. As of a moment ago, but what has just been learned counts at once. */
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

  /** How fast it decodes, as of a moment ago. */
  decodeCostModel(blockTokens: number, now: number): DecodeLaw {
    const tick = Math.floor(now / TICK_MS)
    if (this.#decodeCostModel === null || this.#decodeLawTick !== tick) {
      this.#decodeCostModel = this.decode.lawBeside(this.kind.decode, blockTokens, tick * TICK_MS)
      this.#decodeLawTick = tick
    }
    return this.#decodeCostModel
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
   * The configuration describes it anew. What it has shown itself stays, also where its profile is another.
   * @param factor so many times as many blocks of the pool's new size hold the same
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

  /** Does the engine share equal blocks? `auto` believes what it reports, and yes until it has. */
  caches(spec: EngineSpec): boolean {
    return spec.prefixCaching === 'auto' ? this.#reportsCaching !== false : spec.prefixCaching === 'on'
  }

  /** Of so many tokens, those in whole blocks of the engine, as it cuts them. */
  wholeBlocks(tokens: number): number {
    return tokens - (tokens % this.engineBlockTokens)
  }

  restarted(now: number): void {
    this.#warmSince = now
  }

  /** It answers probes again. @param stamp the index's, of now */
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

  /** @param sequences answers that have begun */
  unseenFrom(firstTokenAt: number, sequences = 1): void {
    this.#unseen += sequences
    this.#unseenSince += sequences * firstTokenAt
  }

  seen(firstTokenAt: number, sequences = 1): void {
    this.unseenFrom(firstTokenAt, -sequences)
  }

  /** Blocks of output that unread streams are believed to have produced. */
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
