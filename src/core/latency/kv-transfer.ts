/** Prior of the transfer: a handshake, and 128 kB of KV cache per token (8B model, grouped attention) at 12 GB/s. */
const PRIOR_FIXED_MS = 5

const PRIOR_TOKEN_MS = 0.01

/** Weight of a new sample. */
const DECAY = 0.2

/** Maximum plausible transfer, milliseconds: longer ones are stalls. */
const MAX_FACTOR = 100

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
    const factor = Math.min(MAX_FACTOR, actualMs / priorMs(promptTokens))
    if (factor > 0) this.#factor += DECAY * (factor - this.#factor)
  }
}

function priorMs(promptTokens: number): number {
  return PRIOR_FIXED_MS + PRIOR_TOKEN_MS * promptTokens
}
