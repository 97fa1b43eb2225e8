import { COLON, CR, LF } from './sse-bytes.ts'

/**
 * Detects the first byte that is more than a keep-alive. Engines may send SSE comments during the prefill; counting
 * one as the first token would end failover too early and falsify the learned rates.
 */
export class LeadingComments {
  #comment = false

  /** Whether the range of the chunk has anything but comments and blank lines. */
  hasContent(chunk: Uint8Array, from = 0, to = chunk.length): boolean {
    let at = from
    while (at < to) {
      if (!this.#comment) {
        const byte = chunk[at]!
        if (byte === LF || byte === CR) {
          at++
          continue
        }
        if (byte !== COLON) return true
        this.#comment = true
      }
      const newline = chunk.indexOf(LF, at)
      if (newline < 0 || newline >= to) return false
      this.#comment = false
      at = newline + 1
    }
    return false
  }
}
