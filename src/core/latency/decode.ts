import { RESTORED_SAMPLES, SHIFT, SURE, sureness } from './fit.ts'

/** A handshake's worth, and 128 kB of KV cache a token (8B, grouped attention) at 12 GB/s: the prior, before a transfer was seen. */
const PRIOR_FIXED_MS = 5
const PRIOR_TOKEN_MS = 0.01
/** One observation weighs this much: transfers of one pair of engines differ little, queues in front of them more. */
const DECAY = 0.2
/** Beyond this a number is a stall and no transfer. */
const MOST_FACTOR = 100

/** What it takes from a prefill's end to the first token on the engine that fetches the KV cache: transfer, queue, one step. */
export class KvTransferModel {
  #factor = 1

  /** Milliseconds for a prompt of this length. */
  expectedMs(promptTokens: number): number {
    return this.#factor * priorMs(promptTokens)
  }

  /** @param actualMs from the decode leg's dispatch to its first byte */
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

/** One answer moves the pace by at most this factor's share: answers differ by far more than engines do. */
const CLIP = Math.log(3)
const LEAST_GAIN = 0.03
/** So many answers in a row that are off by this factor the same way: the engine has another pace now, and each of them moves it far. */
const SHIFT_ANSWERS = 8

/** Learns how much faster or slower than the model an engine decodes. One factor: single answers cannot tell the terms apart. */
export class DecodeLearner {
  #logPace = 0
  #samples = 0
  /** Answers in a row that were off by so much; below zero: that were faster. */
  #offInARow = 0
  /** null: restored, and not looked at since. */
  #lastAt: number | null = 0
  /** Read for every engine of every choice, so kept ready. */
  #costModel: { readonly blockTokens: number; readonly costModel: DecodeLaw } | null = null

  costModel(blockTokens: number): DecodeLaw {
    if (this.#costModel?.blockTokens !== blockTokens)
      this.#costModel = { blockTokens, costModel: lawAt(this.#logPace, blockTokens) }
    return this.#costModel!.costModel
  }

  /** As far as it is sure of its pace, and for the rest at that of its kind. */
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

  /** It is believed from the first look on, like what was learned then. */
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
