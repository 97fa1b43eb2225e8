import { RESTORED_SAMPLES, SHIFT, SURE, sureness } from './fit.ts'

/** Prior of the transfer: a handshake, and 128 kB of KV cache per token (8B model, grouped attention) at 12 GB/s. */
const PRIOR_FIXED_MS = 5
const PRIOR_TOKEN_MS = 0.01
/** Weight of a new sample. */
const DECAY = 0.2
/** Maximum plausible transfer, milliseconds: longer ones are stalls. */
const MOST_FACTOR = 100

/**
 * Model of the KV transfer: time from the prefill's end to the decode engine's first token (transfer, queue, one
 * step).
 */
export class KvTransferModel {
  #factor = 1

  /** Expected milliseconds for a prompt of this length. */
  expectedMs(promptTokens: number): number {
    return this.#factor * priorMs(promptTokens)
  }

  /** @param actualMs measured time from the dispatch of the decode leg to its first byte */
  learn(promptTokens: number, actualMs: number): void {
    const seen = Math.min(MOST_FACTOR, actualMs / priorMs(promptTokens))
    if (seen > 0) this.#factor += DECAY * (seen - this.#factor)
  }
}

function priorMs(promptTokens: number): number {
  return PRIOR_FIXED_MS + PRIOR_TOKEN_MS * promptTokens
}

/** Seconds between two output tokens of one request: `baseS + perRequestS * running + perBlockS * blocks`. */
export interface DecodeLaw {
  readonly baseS: number
  readonly perRequestS: number
  readonly perBlockS: number
}

/** Cost model of vllm-router's program scheduling: 10.635 ms + 0.419 ms a request + 0.142 us a token of context. */
const BASE_S = 0.010635
const PER_REQUEST_S = 0.00041928
const PER_CONTEXT_TOKEN_S = 1.42e-7

export function tokenSeconds(costModel: DecodeLaw, running: number, blocks: number): number {
  return costModel.baseS + costModel.perRequestS * running + costModel.perBlockS * blocks
}

function lawAt(logPace: number, blockTokens: number): DecodeLaw {
  const pace = Math.exp(logPace)
  return {
    baseS: BASE_S * pace,
    perRequestS: PER_REQUEST_S * pace,
    perBlockS: PER_CONTEXT_TOKEN_S * blockTokens * pace,
  }
}

/** Maximum change of the pace by one response, since responses differ more than engines. */
const CLIP = Math.log(3)
const LEAST_GAIN = 0.03
/** Number of consecutive responses off by the same factor and direction after which the pace changes fast. */
const SHIFT_ANSWERS = 8

/**
 * Fits the decode speed of an engine relative to the model, as one factor: single responses cannot separate the terms.
 */
export class DecodeLearner {
  #logPace = 0
  #samples = 0
  /** Consecutive slow responses; negative: fast ones. */
  #offInARow = 0
  /** Time of the last update; null: restored. */
  #lastAt: number | null = 0
  /** Cached, because every decision reads it for every engine. */
  #costModel: { readonly blockTokens: number; readonly costModel: DecodeLaw } | null = null

  costModel(blockTokens: number): DecodeLaw {
    if (this.#costModel?.blockTokens !== blockTokens)
      this.#costModel = { blockTokens, costModel: lawAt(this.#logPace, blockTokens) }
    return this.#costModel!.costModel
  }

  /** Returns the decode model, blended with that of its hardware class by confidence. */
  lawBeside(kind: DecodeLearner, blockTokens: number, now: number): DecodeLaw {
    this.#lastAt ??= now
    const share = sureness(this.#samples, this.#lastAt, now)
    if (share >= SURE || Math.abs(this.#logPace - kind.#logPace) < 1e-3) return this.costModel(blockTokens)
    return lawAt(share * this.#logPace + (1 - share) * kind.#logPace, blockTokens)
  }

  /** Logarithm of the pace, for a snapshot. */
  get logPace(): number {
    return this.#logPace
  }

  /** Restores a pace, which counts like recent samples. */
  restore(logPace: number): void {
    this.#logPace = logPace
    this.#samples = RESTORED_SAMPLES
    this.#lastAt = null
    this.#costModel = null
  }

  /** @param seconds of decode from the first token to the last, for `tokens` tokens after the first. */
  learn(
    seconds: number,
    tokens: number,
    { expectedTokenS, now }: { readonly expectedTokenS: number; readonly now: number },
  ): void {
    if (!(seconds > 0) || !(tokens >= 8) || !(expectedTokenS > 0)) return
    const error = Math.log(seconds / tokens / expectedTokenS)
    const off = Math.abs(error) > SHIFT ? Math.sign(error) : 0
    this.#offInARow = off * this.#offInARow > 0 ? this.#offInARow + off : off
    this.#samples = Math.abs(this.#offInARow) >= SHIFT_ANSWERS ? 1 : this.#samples + 1
    this.#lastAt = now
    const gain = Math.max(LEAST_GAIN, 1 / (this.#samples + 1))
    this.#logPace += gain * Math.min(CLIP, Math.max(-CLIP, error))
    this.#costModel = null
  }
}
