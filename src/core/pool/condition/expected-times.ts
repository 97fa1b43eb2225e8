import type { Admission } from '../../contract/admission.ts'
import { prefillSeconds, type PromptSize } from '../../latency/prefill-cost-model.ts'
import type { EngineRef } from '../booking-ref.ts'
import { extrapolated } from './extrapolation.ts'
import type { EngineEstimators } from '../estimators/engine-estimators.ts'
import { presentItlS, type ItlSources } from '../estimators/present-itl.ts'

/** Samples from which a pace counts as learned. */
const LEARNED_SAMPLES = 3

const USUAL_PROMPT = { promptTokens: 1_000, cachedTokens: 0 }
const TRIAL_PROMPT = { promptTokens: 8, cachedTokens: 0 }

/** Multiple of the usual output up to which an answer is not late. */
const LONG_ANSWER = 4

/** Output of an answer where none has been seen, tokens. */
const UNKNOWN_OUTPUT_TOKENS = 256

interface ExpectedTimesParts {
  readonly engine: EngineRef
  readonly estimators: EngineEstimators
  readonly sources: ItlSources
  /** Usual output of the pool's responses; null: none yet. */
  readonly outputTokens: number | null
  readonly now: number
}

/** Times that an engine should need, from which the gateway finds out that it is late. */
export class ExpectedTimes {
  readonly #parts: ExpectedTimesParts

  constructor(parts: ExpectedTimesParts) {
    this.#parts = parts
  }

  /** Whether the pace of the engine is learned, from itself or from a sibling. */
  get isLearned(): boolean {
    const { prefillFitter, hardwareClass } = this.#parts.estimators
    return Math.max(prefillFitter.samples, hardwareClass.surest?.prefillFitter.samples ?? 0) >= LEARNED_SAMPLES
  }

  /** Prefill of a prompt, and how much longer it may take, from its predicted prefill. */
  prefill(size: PromptSize, predictedMs: number): ReturnType<typeof extrapolated> {
    const { estimators, now } = this.#parts
    const { prefillFitter, hardwareClass } = estimators
    const longestTokens = Math.max(prefillFitter.longestTokens, hardwareClass.surest?.prefillFitter.longestTokens ?? 0)
    return extrapolated(size, predictedMs, { costModel: estimators.costModel(now), longestTokens })
  }

  /** Whether the time between tokens is learned, from the engine or its hardware class. */
  get isDecodeLearned(): boolean {
    const { decodeFitter, hardwareClass } = this.#parts.estimators
    return Math.max(decodeFitter.samples, hardwareClass.decodeFitter.samples) >= LEARNED_SAMPLES
  }

  /** Usual time in which a running stream fills one block, after which its output is reported, ms. */
  get reportMs(): number {
    const { estimators, sources, now } = this.#parts
    return 1000 * sources.blockTokens * presentItlS(estimators, sources, now)
  }

  /** Prefill work that waits or runs, ms. */
  get queuedMs(): number {
    const { estimators, now } = this.#parts
    estimators.queue.settle(now)
    return 1000 * estimators.queue.seconds(now)
  }

  /** Prefill work that the engine has done so far, s. */
  get prefilledS(): number {
    const { estimators, now } = this.#parts
    estimators.queue.settle(now)
    return estimators.prefilledS(now)
  }

  /** Seconds of a usual prompt by the engine's own pace; null: not learned. */
  get paceS(): number | null {
    const { estimators, now } = this.#parts
    return estimators.prefillFitter.samples < LEARNED_SAMPLES
      ? null
      : prefillSeconds(estimators.ownCostModel(now), USUAL_PROMPT)
  }

  /** Time of a one-token request on the idle engine, ms. */
  get trialMs(): number {
    const { engine, estimators, now } = this.#parts
    return engine.spec.rttMs + 1000 * prefillSeconds(estimators.costModel(now), TRIAL_PROMPT)
  }

  /**
   * Longest usual time from the first token to the end of an answer that does not stream, ms.
   * @param itlS predicted seconds between its tokens
   */
  answerMs({ outputLimitTokens = Infinity }: Admission, itlS: number): number {
    const { outputTokens } = this.#parts
    const tokens = Math.min(outputLimitTokens, LONG_ANSWER * (outputTokens ?? UNKNOWN_OUTPUT_TOKENS))
    return 1000 * tokens * itlS
  }
}
