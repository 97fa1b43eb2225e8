import { type DecodeCostModel, decodeCostModelAt, tokenSeconds } from './decode-cost-model.ts'
import {
  FULL_CONFIDENCE,
  RESTORED_SAMPLES,
  sampleConfidence,
  type SampleTimes,
  SHIFT_LOG_FACTOR,
} from './sample-confidence.ts'

/** Maximum change of the pace by one response, since responses differ more than engines. */
const CLIP = Math.log(3)

const MIN_GAIN = 0.03

/** Number of consecutive responses off by the same factor and direction after which the pace changes fast. */
const SHIFT_SAMPLES = 8

/** Load of the engine while it decodes a response. */
interface DecodeLoad {
  readonly running: number
  readonly blocks: number
  /** Block size, tokens. */
  readonly blockTokens: number
  /** Milliseconds since the epoch. */
  readonly now: number
}

/**
 * Fits the decode speed of an engine relative to the model, as one factor: single responses cannot separate the terms.
 */
export class DecodeFitter {
  #logPace = 0
  #samples = 0
  /** Consecutive slow responses; negative: fast ones. */
  #offInARow = 0
  /** Times since the last response that was off; null: none yet, or restored. */
  #times: SampleTimes | null = null
  /** Cached, because every decision reads it for every engine. */
  #costModel: { readonly blockTokens: number; readonly costModel: DecodeCostModel } | null = null

  costModel(blockTokens: number): DecodeCostModel {
    if (this.#costModel?.blockTokens !== blockTokens)
      this.#costModel = { blockTokens, costModel: decodeCostModelAt(this.#logPace, blockTokens) }
    return this.#costModel!.costModel
  }

  /** Returns the decode model, blended with that of its hardware class by confidence. */
  blendedCostModel(hardwareClass: DecodeFitter, blockTokens: number, now: number): DecodeCostModel {
    this.#times ??= { firstAt: now, lastAt: now }
    const share = sampleConfidence(this.#samples, this.#times, now)
    if (share >= FULL_CONFIDENCE || Math.abs(this.#logPace - hardwareClass.#logPace) < 1e-3)
      return this.costModel(blockTokens)
    return decodeCostModelAt(share * this.#logPace + (1 - share) * hardwareClass.#logPace, blockTokens)
  }

  /** Responses since the pace last changed. */
  get samples(): number {
    return this.#samples
  }

  /** Logarithm of the pace, for a snapshot. */
  get logPace(): number {
    return this.#logPace
  }

  /** Restores a pace, which counts like recent samples. */
  restore(logPace: number): void {
    this.#logPace = logPace
    this.#samples = RESTORED_SAMPLES
    this.#times = null
    this.#costModel = null
  }

  /** @param seconds of decode from the first token to the last, for `tokens` tokens after the first. */
  learn(seconds: number, tokens: number, { running, blocks, blockTokens, now }: DecodeLoad): void {
    const expectedTokenS = tokenSeconds(this.costModel(blockTokens), running, blocks)
    if (!(seconds > 0) || !(tokens >= 8) || !(expectedTokenS > 0)) return
    const error = Math.log(seconds / tokens / expectedTokenS)
    const off = Math.abs(error) > SHIFT_LOG_FACTOR ? Math.sign(error) : 0
    this.#offInARow = off * this.#offInARow > 0 ? this.#offInARow + off : off
    this.#samples = Math.abs(this.#offInARow) >= SHIFT_SAMPLES ? 1 : this.#samples + 1
    this.#times = { firstAt: off === 0 ? (this.#times?.firstAt ?? now) : now, lastAt: now }
    const gain = Math.max(MIN_GAIN, 1 / (this.#samples + 1))
    this.#logPace += gain * Math.min(CLIP, Math.max(-CLIP, error))
    this.#costModel = null
  }
}
