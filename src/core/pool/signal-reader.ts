import { tokenSeconds } from '../latency/decode.ts'
import { newTokens, prefillSeconds } from '../latency/cost-model.ts'
import { TIER_TOKEN_US } from '../latency/profiles.ts'
import type { Signal, Signals } from '../routing/policy.ts'
import { type ActiveBlocks, type PromptShape, shapeOf } from '../prefix-index/active-blocks.ts'
import type { Pressure } from '../overload/overload-control.ts'
import type { EngineRef, Forecast } from './ledger-entry.ts'
import type { Admission, CacheHint } from '../contract/contract.ts'
import type { EngineEstimators } from './engine-estimators.ts'
import type { Foreign } from './foreign-load.ts'
import { prefillWork } from './prefill-queue.ts'
import { LOAD_SIGNALS, type LoadStats } from './load-stats.ts'
import type { PrefixIndex } from '../prefix-index/prefix-index.ts'

type Mutable<Type> = { -readonly [Key in keyof Type]: Type[Key] }

const NO_COST_MODEL: Signals['costModel'] = { fixedS: NaN, perTokenS: NaN, perPairS: NaN }
const NO_DECODE_COST_MODEL: Signals['decodeCostModel'] = { baseS: NaN, perRequestS: NaN, perBlockS: NaN }
export const NO_SLOW_TOKENS: Signals['slowTokens'] = { host: 0, disk: 0, remote: 0 }

/**
 * Row of signals of one engine, reused by all decisions. Only signals that the current policy needs are up to date.
 * NaN: missing.
 */
export class EngineSignals implements Mutable<Signals> {
  readonly id: string
  weight = NaN
  // All fields are initialised with doubles, so that V8 does not change the object's shape later.
  requests = NaN
  arrivals = NaN
  turn = NaN
  recentWork = NaN
  recentNewTokens = NaN
  activeBlocks = NaN
  newActiveBlocks = NaN
  liveTokens = NaN
  liveSharers = NaN
  cachedTokens = NaN
  slowTokens = NO_SLOW_TOKENS
  lookupTokens = NaN
  queuedPrefills = NaN
  queuedPrefillTokens = NaN
  queuedWork = NaN
  queuedPrefillS = NaN
  placeWaitS = NaN
  foreignRequests = NaN
  capacityBlocks = NaN
  rttS = NaN
  costModel = NO_COST_MODEL
  confidence = NaN
  decodeCostModel = NO_DECODE_COST_MODEL
  warmth = NaN
  adapterFit = NaN

  constructor(id: string) {
    this.id = id
  }
}

/** Data from which a `SignalReader` reads. */
export interface Sources {
  readonly index: PrefixIndex
  readonly active: ActiveBlocks
  readonly load: LoadStats
  readonly blockTokens: number
  readonly output: { readonly tokens: number | null }
  readonly book: (engine: EngineRef) => EngineEstimators
}

/** Leading tokens of a prompt estimated as cached on an engine, by tier. */
export interface CachedTokens {
  /** Total of all tiers. */
  readonly total: number
  /** Tokens of `total` beyond those in faster tiers. */
  readonly host: number
  readonly disk: number
  readonly remote: number
}

const NOTHING_CACHED: CachedTokens = { total: 0, ...NO_SLOW_TOKENS }
const NO_HINT = { device: 0, host: 0, disk: 0, remote: 0 }
const NO_HINTS: ReadonlyMap<string, typeof NO_HINT> = new Map()

const OF_PROMPT: readonly Signal[] = [
  'newActiveBlocks',
  'liveTokens',
  'liveSharers',
  'cachedTokens',
  'slowTokens',
  'lookupTokens',
]

/** Signals for one request at one time. The prompt is looked up once for all engines. */
export class SignalReader {
  readonly #sources: Sources
  readonly #admission: Admission
  readonly #now: number
  readonly #engines: readonly EngineRef[]
  readonly #shape: PromptShape
  readonly #blockTokens: number
  readonly #hints: ReadonlyMap<string, typeof NO_HINT>
  readonly #known: (CachedTokens | undefined)[] = []
  #matched = false
  #loadFilled = false
  #promptFilled = false
  #stateFilled = false

  constructor(
    sources: Sources,
    admission: Admission,
    { now, engines }: { readonly now: number; readonly engines: readonly EngineRef[] },
  ) {
    this.#sources = sources
    this.#admission = admission
    this.#now = now
    this.#engines = engines
    this.#shape = shapeOf(admission.blocks, admission.promptTokens, sources.blockTokens)
    this.#blockTokens = tokensOfBlock(admission, sources.blockTokens)
    this.#hints =
      admission.hints === null || admission.hints.length === 0 || admission.computesAll
        ? NO_HINTS
        : byEngine(admission.hints)
  }

  /**
   * Writes a signal, and the others that are computed with it, into the engines' rows. NaN: missing, so a policy that
   * needs the signal skips the engine. A cold cache and an empty queue are 0, not missing.
   */
  fill(signal: Signal): void {
    if (LOAD_SIGNALS.includes(signal)) {
      if (!this.#loadFilled) this.#sources.load.writeSignals(this.#engines, this.#now)
      this.#loadFilled = true
    } else if (OF_PROMPT.includes(signal)) {
      if (!this.#promptFilled) this.#fillPrompt()
      this.#promptFilled = true
    } else {
      if (!this.#stateFilled) this.#fillState()
      this.#stateFilled = true
    }
  }

  forecast(engine: EngineRef): Forecast {
    const book = this.#sources.book(engine)
    const cached = this.cached(engine)
    const prefillS = this.#prefillS(book, cached)
    const workS = this.#waitS(engine) + prefillS + loadSeconds(cached)
    const inStepsS = workS + this.#stepsS(book, cached, prefillS)
    const baseS = book.prediction.better(workS, inStepsS)
    return {
      ttftMs: 1000 * (baseS + usualDelayS(book, baseS)),
      prefill: { workMs: 1000 * workS, inStepsMs: 1000 * inStepsS, baseMs: 1000 * baseS },
      stallMs: 1000 * prefillS * Math.max(0, book.requests - book.queue.length),
      cachedTokens: cached.total,
      handOverMs: book.handOver.expectedMs(this.#admission.promptTokens),
    }
  }

  get promptTokens(): number {
    return this.#admission.promptTokens
  }

  /** Mean output tokens of the pool's responses; null: none yet. */
  get usualOutputTokens(): number | null {
    return this.#sources.output.tokens
  }

  /** Returns the time to receive the prompt's KV, as a share of the time to compute it, 0..1. */
  transferShare(engine: EngineRef): number {
    const book = this.#sources.book(engine)
    const size = { promptTokens: this.promptTokens, cachedTokens: 0 }
    const computeMs = 1000 * prefillSeconds(book.costModel(this.#now), size)
    return computeMs > 0 ? Math.min(1, book.handOver.expectedMs(this.promptTokens) / computeMs) : 1
  }

  /** Load of the engine with this request added. */
  pressure(engine: EngineRef): Pressure {
    const book = this.#sources.book(engine)
    const { active, blockTokens } = this.#sources
    const newBlocks = active.newBlocks(book.number, this.#shape, this.shares(engine))
    const blocks = active.active(book.number) + this.#unseenBlocks(book) + newBlocks
    const cached = this.cached(engine)
    const requests = book.requests + (this.#admission.sequences ?? 1)
    book.queue.settle(this.#now)
    const waitS = this.#waitS(engine)
    const prefillS = this.#prefillS(book, cached) + loadSeconds(cached)
    const delayS = book.requests > 0 ? book.workDelay.seconds(waitS + prefillS) : 0
    return {
      waitMs: 1000 * Math.max(0, waitS + delayS),
      prefillMs: 1000 * prefillS,
      overdueMs: book.queue.overdueMs(this.#now),
      stepMs: 1000 * tokenSeconds(book.step.lawBeside(book.kind.step, blockTokens, this.#now), requests, blocks),
      prefillShare: book.prefillWork.share(this.#now),
      memoryShare: blocks / (book.capacity.declared ?? Infinity),
      stepLimitMs: book.stepLimit.limitMs(this.#now),
      requests: book.requests,
      waiting: book.queue.length,
      samples: book.learner.samples,
    }
  }

  /** Seconds of queued prefills, with those of other sources. */
  #queueS(engine: EngineRef): number {
    const book = this.#sources.book(engine)
    const foreign = this.#sources.load.foreign(engine, this.#now, book.prefilledS(this.#now))
    return this.#waitOf(book, foreign)
  }

  #waitOf(book: EngineEstimators, { requests, queuedS }: Foreign): number {
    const sequences = this.#admission.sequences ?? 1
    const { queue, usualPrefillS } = book
    // Beside other sources, a late first token shows a prefill of theirs before it: half of one remains on average.
    const leastS = queue.isEmpty ? 0 : Math.min(1, requests) * (usualPrefillS / 2)
    return Math.max(
      Math.max(leastS, queue.seconds(this.#now)) + queuedS,
      book.places.waitS(sequences + requests, this.#now),
    )
  }

  /** Seconds before a prefill could start, with the round trip. */
  #waitS(engine: EngineRef): number {
    return engine.spec.rttMs / 1000 + this.#queueS(engine)
  }

  /** Seconds to compute the prompt beyond the cached tokens. */
  #prefillS(book: EngineEstimators, cached: CachedTokens): number {
    const size = { promptTokens: this.#admission.promptTokens, cachedTokens: cached.total }
    return prefillSeconds(book.costModel(this.#now), size)
  }

  /** What the engine's steps add to the wait and the own prefill. Nothing if it is idle. */
  #stepsS({ requests, queue }: EngineEstimators, cached: CachedTokens, prefillS: number): number {
    if (requests === 0) return 0
    const { promptTokens } = this.#admission
    const size = { promptTokens, cachedTokens: cached.total }
    const work = prefillWork(promptTokens, cached.total)
    return queue.delaySeconds({ newTokens: newTokens(size), work, seconds: prefillS }, this.#now)
  }

  /** Returns the cached tokens that routing assumes. */
  cached(engine: EngineRef): CachedTokens {
    // Memoised: used by two signals and by the booking.
    return (this.#known[engine.slot] ??= this.#cached(engine, this.#creditedTokens(engine)))
  }

  /** Tokens of the index that are trusted for the engine. */
  #creditedTokens(engine: EngineRef): number {
    const book = this.#sources.book(engine)
    return this.shares(engine) && !book.feedback.silentMiss ? this.#indexTokens(book) : 0
  }

  /** Whether the request shares blocks with others on the engine. */
  shares(engine: EngineRef): boolean {
    return !this.#admission.computesAll && this.#sources.book(engine).caches(engine.spec)
  }

  /** Returns the blocks in the index, trusted or not. */
  indexBlocks(engine: EngineRef): number {
    this.#match()
    return this.#sources.index.cached[this.#sources.book(engine).number]!
  }

  get shape(): PromptShape {
    return this.#shape
  }

  /** Writes the signals that depend on the prompt. */
  #fillPrompt(): void {
    const engines = this.#engines
    const { active, index, book: of } = this.#sources
    const { hints, promptTokens } = this.#admission
    const looked = this.#hints.size > 0
    this.#match()
    for (let at = 0; at < engines.length; at++) {
      const engine = engines[at]!
      const { signals } = engine
      const book = of(engine)
      const shares = this.shares(engine)
      signals.newActiveBlocks = active.newBlocks(book.number, this.#shape, shares)
      signals.liveTokens = shares && !book.feedback.silentMiss ? this.tokensOf(index.live[book.number]!) : -1
      signals.liveSharers = signals.liveTokens > 0 ? index.sharers[book.number]! : 0
      signals.slowTokens = looked ? this.cached(engine) : NO_SLOW_TOKENS
      signals.lookupTokens = hints === null ? NaN : this.#cached(engine, 0).total
      if (promptTokens === 0) signals.cachedTokens = 0
      else
        signals.cachedTokens = looked ? this.cached(engine).total : this.#reused(engine, this.#creditedTokens(engine))
    }
  }

  /** Writes the signals that do not depend on the prompt. */
  #fillState(): void {
    const engines = this.#engines
    const { active, blockTokens, load, book: of } = this.#sources
    const now = this.#now
    for (let at = 0; at < engines.length; at++) {
      const { signals } = engines[at]!
      const book = of(engines[at]!)
      const { queue } = book
      queue.settle(now)
      const foreign = load.foreign(engines[at]!, now, book.prefilledS(now))
      signals.queuedPrefills = Math.max(0, queue.length + foreign.waiting - book.places.excess(foreign.requests))
      signals.queuedPrefillTokens = queue.newTokens
      signals.queuedWork = queue.work
      signals.placeWaitS = book.places.waitS((this.#admission.sequences ?? 1) + foreign.requests, now)
      signals.queuedPrefillS = this.#waitOf(book, foreign)
      signals.activeBlocks = active.active(book.number) + this.#unseenBlocks(book) + foreign.blocks
      signals.capacityBlocks = book.capacity.declared ?? Infinity
      signals.costModel = book.costModel(now)
      signals.confidence = book.learner.confidence
      signals.decodeCostModel = book.decodeCostModel(blockTokens, now)
      signals.warmth = book.warmth(now)
      signals.adapterFit = book.adapters.fit(this.#admission.adapter)
    }
  }

  #unseenBlocks(book: EngineEstimators): number {
    if (!book.hasUnseen) return 0
    return book.unseenBlocks(
      this.#now,
      this.#sources.blockTokens,
      tokenSeconds(book.decodeCostModel(this.#sources.blockTokens, this.#now), book.requests, 0),
    )
  }

  #indexTokens(book: EngineEstimators): number {
    if (this.#admission.computesAll) return 0
    this.#match()
    return this.tokensOf(this.#sources.index.cached[book.number]!)
  }

  /** Returns the prompt tokens in this many blocks, as a whole number so that sums do not drift. */
  tokensOf(blocks: number): number {
    return Math.floor(blocks * this.#blockTokens)
  }

  /** Maximum reusable tokens: an engine always computes the last token of a prompt. */
  get #mostTokens(): number {
    return Math.max(0, this.#admission.promptTokens - 1)
  }

  /** Reusable tokens of the engine's own cache: whole blocks only. */
  #reused(engine: EngineRef, tokens: number): number {
    const book = this.#sources.book(engine)
    const whole = book.wholeBlocks(Math.min(this.#mostTokens, tokens))
    return book.feedback.redoesLast ? Math.max(0, whole - book.engineBlockTokens) : whole
  }

  #cached(engine: EngineRef, indexTokens: number): CachedTokens {
    const hint = this.#hints.get(engine.spec.id) ?? NO_HINT
    const device = this.#reused(engine, Math.max(indexTokens, hint.device))
    if (hint === NO_HINT) return device === 0 ? NOTHING_CACHED : { total: device, host: 0, disk: 0, remote: 0 }
    const limit = this.#mostTokens
    const host = Math.max(0, Math.min(limit, hint.host) - device)
    const disk = Math.max(0, Math.min(limit, hint.disk) - device - host)
    const remote = Math.max(0, Math.min(limit, hint.remote) - device - host - disk)
    return { total: device + host + disk + remote, host, disk, remote }
  }

  #match(): void {
    if (this.#matched) return
    this.#sources.index.match(this.#shape.blocks, this.#shape.blockCount)
    this.#matched = true
  }
}

/**
 * Tokens per prompt block: the pool's `blockTokens` for token ids. Byte chunks hold a varying number; together they
 * are the prompt except for less than one chunk.
 */
export function tokensOfBlock(
  { tokenSource, promptTokens, blocks }: Pick<Admission, 'tokenSource' | 'promptTokens' | 'blocks'>,
  blockTokens: number,
): number {
  const count = blocks.length >> 1
  if (tokenSource !== 'bytes' || count === 0) return blockTokens
  return Math.min(promptTokens / count, Math.max(blockTokens, promptTokens / (count + 1)))
}

/** Longest match per engine and tier. Engines that the pool does not have are never read. */
function byEngine(hints: readonly CacheHint[]): ReadonlyMap<string, typeof NO_HINT> {
  const found = new Map<string, typeof NO_HINT>()
  for (const { engine, tier, matchedTokens } of hints) {
    if (!(matchedTokens > 0)) continue
    const known = found.get(engine) ?? NO_HINT
    found.set(engine, { ...known, [tier]: Math.max(known[tier], matchedTokens) })
  }
  return found
}

/** Usual delay of first tokens beyond the prediction, for prompts that wait behind others. */
function usualDelayS({ queue, stepDelay }: EngineEstimators, predictedS: number): number {
  return queue.isEmpty ? 0 : stepDelay.seconds(predictedS)
}

/** Seconds to load cached blocks from slower tiers. */
function loadSeconds({ host, disk, remote }: CachedTokens): number {
  return (host * TIER_TOKEN_US.host + disk * TIER_TOKEN_US.disk + remote * TIER_TOKEN_US.remote) / 1e6
}
