import type { Admission } from '../contract/admission.ts'
import { newTokens, prefillSeconds } from '../latency/prefill-cost-model.ts'
import { tokenSeconds } from '../latency/decode-cost-model.ts'
import { prefillWork } from '../latency/prefill-work.ts'
import type { Pressure } from '../overload/pressure.ts'
import { type ActiveBlocks, type PromptShape, shapeOf } from '../prefix-index/active-blocks.ts'
import type { PrefixIndex } from '../prefix-index/prefix-index.ts'
import type { Signal } from '../routing/policy.ts'
import { tokensPerBlock } from './block-tokens.ts'
import type { EngineRef } from './booking-ref.ts'
import { byEngine, type CachedTokens, loadSeconds, NO_HINT, NO_HINTS, NOTHING_CACHED } from './cached-tokens.ts'
import type { EngineEstimators } from './engine-estimators.ts'
import { NO_SLOW_TOKENS } from './engine-signals.ts'
import type { Forecast } from './first-token-forecast.ts'
import type { ForeignEstimate } from './foreign-load.ts'
import { LOAD_SIGNALS, type LoadStats } from './load-stats.ts'

/** Data from which a `SignalReader` reads. */
export interface SignalSources {
  readonly index: PrefixIndex
  readonly active: ActiveBlocks
  readonly load: LoadStats
  readonly blockTokens: number
  readonly output: { readonly tokens: number | null }
  readonly estimators: (engine: EngineRef) => EngineEstimators
}

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
  readonly #sources: SignalSources
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
    sources: SignalSources,
    admission: Admission,
    { now, engines }: { readonly now: number; readonly engines: readonly EngineRef[] },
  ) {
    this.#sources = sources
    this.#admission = admission
    this.#now = now
    this.#engines = engines
    this.#shape = shapeOf(admission.blocks, admission.promptTokens, sources.blockTokens)
    this.#blockTokens = tokensPerBlock(admission, sources.blockTokens)
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
    const estimators = this.#sources.estimators(engine)
    const cached = this.cached(engine)
    const prefillS = this.#prefillS(estimators, cached)
    const workS = this.#waitS(engine) + prefillS + loadSeconds(cached)
    const inStepsS = workS + this.#stepsS(estimators, cached, prefillS)
    const baseS = estimators.prediction.choose(workS, inStepsS)
    return {
      ttftMs: 1000 * (baseS + usualDelayS(estimators, baseS)),
      prefill: { workMs: 1000 * workS, inStepsMs: 1000 * inStepsS, baseMs: 1000 * baseS },
      stallMs: 1000 * prefillS * Math.max(0, estimators.requests - estimators.queue.length),
      cachedTokens: cached.total,
      handOverMs: estimators.handOver.expectedMs(this.#admission.promptTokens),
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
    const estimators = this.#sources.estimators(engine)
    const size = { promptTokens: this.promptTokens, cachedTokens: 0 }
    const computeMs = 1000 * prefillSeconds(estimators.costModel(this.#now), size)
    return computeMs > 0 ? Math.min(1, estimators.handOver.expectedMs(this.promptTokens) / computeMs) : 1
  }

  /** Load of the engine with this request added. */
  pressure(engine: EngineRef): Pressure {
    const estimators = this.#sources.estimators(engine)
    const { active, blockTokens } = this.#sources
    const newBlocks = active.newBlocks(estimators.number, this.#shape, this.shares(engine))
    const blocks = active.active(estimators.number) + this.#unparsedBlocks(estimators) + newBlocks
    const cached = this.cached(engine)
    const requests = estimators.requests + (this.#admission.sequences ?? 1)
    estimators.queue.settle(this.#now)
    const waitS = this.#waitS(engine)
    const prefillS = this.#prefillS(estimators, cached) + loadSeconds(cached)
    const delayS = estimators.requests > 0 ? estimators.workDelay.seconds(waitS + prefillS) : 0
    return {
      waitMs: 1000 * Math.max(0, waitS + delayS),
      prefillMs: 1000 * prefillS,
      overdueMs: estimators.queue.overdueMs(this.#now),
      stepMs:
        1000 *
        tokenSeconds(estimators.step.blendedCostModel(estimators.kind.step, blockTokens, this.#now), requests, blocks),
      prefillShare: estimators.prefillShare.share(this.#now),
      memoryShare: blocks / (estimators.capacity.declared ?? Infinity),
      stepLimitMs: estimators.stepLimit.limitMs(this.#now),
      requests: estimators.requests,
      waiting: estimators.queue.length,
      samples: estimators.learner.samples,
    }
  }

  /** Seconds of queued prefills, with those of other sources. */
  #queueS(engine: EngineRef): number {
    const estimators = this.#sources.estimators(engine)
    const foreign = this.#sources.load.foreign(engine, this.#now, estimators.prefilledS(this.#now))
    return this.#waitOf(estimators, foreign)
  }

  #waitOf(estimators: EngineEstimators, { requests, queuedS }: ForeignEstimate): number {
    const sequences = this.#admission.sequences ?? 1
    const { queue, usualPrefillS } = estimators
    // Beside other sources, a late first token shows a prefill of theirs before it: half of one remains on average.
    const minS = queue.isEmpty ? 0 : Math.min(1, requests) * (usualPrefillS / 2)
    return Math.max(
      Math.max(minS, queue.seconds(this.#now)) + queuedS,
      estimators.places.waitS(sequences + requests, this.#now),
    )
  }

  /** Seconds before a prefill could start, with the round trip. */
  #waitS(engine: EngineRef): number {
    return engine.spec.rttMs / 1000 + this.#queueS(engine)
  }

  /** Seconds to compute the prompt beyond the cached tokens. */
  #prefillS(estimators: EngineEstimators, cached: CachedTokens): number {
    const size = { promptTokens: this.#admission.promptTokens, cachedTokens: cached.total }
    return prefillSeconds(estimators.costModel(this.#now), size)
  }

  /** Time that the engine's steps add to the wait and the own prefill. Nothing if it is idle. */
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
    const estimators = this.#sources.estimators(engine)
    return this.shares(engine) && !estimators.feedback.silentMiss ? this.#indexTokens(estimators) : 0
  }

  /** Whether the request shares blocks with others on the engine. */
  shares(engine: EngineRef): boolean {
    return !this.#admission.computesAll && this.#sources.estimators(engine).caches(engine.spec)
  }

  /** Returns the blocks in the index, trusted or not. */
  indexBlocks(engine: EngineRef): number {
    this.#match()
    return this.#sources.index.cached[this.#sources.estimators(engine).number]!
  }

  get shape(): PromptShape {
    return this.#shape
  }

  /** Writes the signals that depend on the prompt. */
  #fillPrompt(): void {
    const engines = this.#engines
    const { active, index, estimators: estimatorsOf } = this.#sources
    const { hints, promptTokens } = this.#admission
    const looked = this.#hints.size > 0
    this.#match()
    for (let at = 0; at < engines.length; at++) {
      const engine = engines[at]!
      const { signals } = engine
      const estimators = estimatorsOf(engine)
      const shares = this.shares(engine)
      signals.newActiveBlocks = active.newBlocks(estimators.number, this.#shape, shares)
      signals.liveTokens =
        shares && !estimators.feedback.silentMiss ? this.tokensOf(index.live[estimators.number]!) : -1
      signals.liveSharers = signals.liveTokens > 0 ? index.sharers[estimators.number]! : 0
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
    const { active, blockTokens, load, estimators: estimatorsOf } = this.#sources
    const now = this.#now
    for (let at = 0; at < engines.length; at++) {
      const { signals } = engines[at]!
      const estimators = estimatorsOf(engines[at]!)
      const { queue } = estimators
      queue.settle(now)
      const foreign = load.foreign(engines[at]!, now, estimators.prefilledS(now))
      signals.queuedPrefills = Math.max(0, queue.length + foreign.waiting - estimators.places.excess(foreign.requests))
      signals.queuedPrefillTokens = queue.newTokens
      signals.queuedWork = queue.work
      signals.placeWaitS = estimators.places.waitS((this.#admission.sequences ?? 1) + foreign.requests, now)
      signals.queuedPrefillS = this.#waitOf(estimators, foreign)
      signals.activeBlocks = active.active(estimators.number) + this.#unparsedBlocks(estimators) + foreign.blocks
      signals.capacityBlocks = estimators.capacity.declared ?? Infinity
      signals.costModel = estimators.costModel(now)
      signals.confidence = estimators.learner.confidence
      signals.decodeCostModel = estimators.decodeCostModel(blockTokens, now)
      signals.warmth = estimators.warmth(now)
      signals.adapterFit = estimators.adapters.fit(this.#admission.adapter)
    }
  }

  #unparsedBlocks(estimators: EngineEstimators): number {
    if (!estimators.hasUnparsed) return 0
    return estimators.unparsedBlocks(
      this.#now,
      this.#sources.blockTokens,
      tokenSeconds(estimators.decodeCostModel(this.#sources.blockTokens, this.#now), estimators.requests, 0),
    )
  }

  #indexTokens(estimators: EngineEstimators): number {
    if (this.#admission.computesAll) return 0
    this.#match()
    return this.tokensOf(this.#sources.index.cached[estimators.number]!)
  }

  /** Returns the prompt tokens in this many blocks, as a whole number so that sums do not drift. */
  tokensOf(blocks: number): number {
    return Math.floor(blocks * this.#blockTokens)
  }

  /** Maximum reusable tokens: an engine always computes the last token of a prompt. */
  get #maxTokens(): number {
    return Math.max(0, this.#admission.promptTokens - 1)
  }

  /** Reusable tokens of the engine's own cache: whole blocks only. */
  #reused(engine: EngineRef, tokens: number): number {
    const estimators = this.#sources.estimators(engine)
    const whole = estimators.wholeBlocks(Math.min(this.#maxTokens, tokens))
    return estimators.feedback.redoesLast ? Math.max(0, whole - estimators.engineBlockTokens) : whole
  }

  #cached(engine: EngineRef, indexTokens: number): CachedTokens {
    const hint = this.#hints.get(engine.spec.id) ?? NO_HINT
    const device = this.#reused(engine, Math.max(indexTokens, hint.device))
    if (hint === NO_HINT) return device === 0 ? NOTHING_CACHED : { total: device, host: 0, disk: 0, remote: 0 }
    const limit = this.#maxTokens
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

/** Usual delay of first tokens beyond the prediction, for prompts that wait behind others. */
function usualDelayS({ queue, stepDelay }: EngineEstimators, predictedS: number): number {
  return queue.isEmpty ? 0 : stepDelay.seconds(predictedS)
}
