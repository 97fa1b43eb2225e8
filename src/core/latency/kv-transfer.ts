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
