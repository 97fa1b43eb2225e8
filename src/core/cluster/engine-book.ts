import { type DecodeLaw, DecodeLearner } from '../latency/decode.ts'
import { LawLearner } from '../latency/law-learner.ts'
import type { Law } from '../latency/law.ts'
import { AdapterUse } from './adapter-use.ts'
import { CacheCapacity } from './cache-capacity.ts'
import { CacheFeedback } from './cache-feedback.ts'
import type { EngineSpec, EngineStats } from './contract.ts'
import { EventFeed } from './event-feed.ts'
import { HandOverTime } from '../latency/hand-over.ts'
import { PrefillQueue } from './prefill-work.ts'

/** How long a new or restarted engine is spared: CUDA graphs, caches and clocks take their time. */
const WARM_AFTER_MS = 30_000
const ERROR_DECAY = 0.05
/** How often laws are mixed anew: what an engine showed fades within seconds, and a mix costs as much as a dozen engines' prices. */
const TICK_MS = 100
/** Unseen output is taken to end here, however long its request lives. */
const MOST_UNSEEN_TOKENS = 4096

/** What engines of one hardware profile have in common: where a new one starts, and what one that is unsure of itself goes by. */
export class EngineKind {
  /** Whose law is surest. */
  surest: EngineBook | null = null
  /** Learns from all of them. */
  readonly decode = new DecodeLearner()

  /** It has learned something: is it the surest now? */
  learned(book: EngineBook): void {
    if (book.learner.samples === 0) return
    if (this.surest === null || book.learner.confidence > this.surest.learner.confidence) this.surest = book
  }

  forgotten(book: EngineBook): void {
    if (this.surest === book) this.surest = null
  }
}

/** What is known and learned of one engine, but for the blocks it holds. */
export class EngineBook {
  /** Its number in the prefix index. */
  readonly number: number
  kind: EngineKind
  readonly queue = new PrefillQueue(
    (sample) => this.learner.learn(sample),
    (at, { sequences }) => this.unseenFrom(at, sequences),
  )
  readonly learner: LawLearner
  readonly decode = new DecodeLearner()
  readonly feedback = new CacheFeedback()
  readonly capacity = new CacheCapacity()
  readonly adapters = new AdapterUse()
  readonly handOver = new HandOverTime()
  /** Its KV events, where a bridge passes them on. */
  readonly feed = new EventFeed()
  /** Tokens a block as the engine cuts them: it reuses no part of one. 1: it has not said. */
  engineBlockTokens = 1
  /** Live requests. */
  requests = 0
  #warmSince: number
  /** When it last came back, by the index's stamp. */
  revivedStamp = 0
  // Every choice asks for the laws of all engines, and how they mix changes slowly.
  #law: Law
  #lawTick = NaN
  #lawSamples = 0
  #sibling: Law | null = null
  #decodeLaw: DecodeLaw | null = null
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

  constructor(number: number, { kind, prior, warmSince }: { readonly kind: EngineKind; readonly prior: Law; readonly warmSince: number }) {
    this.number = number
    this.kind = kind
    this.learner = new LawLearner(prior)
    this.#warmSince = warmSince
    this.#law = prior
  }

  /** What its prefills are expected to take. As of a moment ago, but what has just been learned counts at once. */
  law(now: number): Law {
    const tick = Math.floor(now / TICK_MS)
    const { surest } = this.kind
    const sibling = surest === null || surest === this ? null : surest.learner.law
    if (this.#lawTick !== tick || this.#sibling !== sibling || this.#lawSamples !== this.learner.samples) {
      this.#law = sibling === null ? this.learner.law : this.learner.lawBeside(sibling, tick * TICK_MS)
      this.#lawTick = tick
      this.#sibling = sibling
      this.#lawSamples = this.learner.samples
    }
    return this.#law
  }

  /** How fast it decodes, as of a moment ago. */
  decodeLaw(blockTokens: number, now: number): DecodeLaw {
    const tick = Math.floor(now / TICK_MS)
    if (this.#decodeLaw === null || this.#decodeLawTick !== tick) {
      this.#decodeLaw = this.decode.lawBeside(this.kind.decode, blockTokens, tick * TICK_MS)
      this.#decodeLawTick = tick
    }
    return this.#decodeLaw
  }

  observed(stats: EngineStats, poolBlockTokens: number, spec: EngineSpec): void {
    this.#reportsCaching = stats.prefixCaching ?? this.#reportsCaching
    const blockTokens = stats.blockTokens !== null && stats.blockTokens > 0 ? stats.blockTokens : null
    if (stats.cacheBlocks !== null) this.#reportedBlocks = stats.cacheBlocks * ((blockTokens ?? poolBlockTokens) / poolBlockTokens)
    this.capacity.declare(spec.cacheBlocks ?? this.#reportedBlocks)
    this.engineBlockTokens = blockTokens ?? this.engineBlockTokens
    if (stats.adapters !== null) this.adapters.observed(stats.adapters)
  }

  /**
   * The configuration describes it anew. What it has shown itself stays, also where its profile is another.
   * @param factor so many times as many blocks of the pool's new size hold the same
   */
  described(spec: EngineSpec, { kind, prior, factor }: { readonly kind: EngineKind; readonly prior: Law; readonly factor: number }): void {
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
