/** Boundaries of server-sent events (WHATWG HTML, 9.2.6) in bytes that arrive in arbitrary pieces. */
import { CR, DATA, LF } from './sse-bytes.ts'

/** Finds the ends of events. One state machine for all chunks of a stream; it keeps no bytes. */
export class SseScanner {
  #inLine = false
  #hasData = false
  #inEvent = false
  #closedData = false

  /** The position is between two events. */
  get atBoundary(): boolean {
    return !this.#inEvent && !this.#inLine
  }

  /** The event that `next` just ended had a `data` line. */
  get closedData(): boolean {
    return this.#closedData
  }

  /** Index after the blank line that ends the event at `from`. -1: the chunk ends first. */
  next(chunk: Uint8Array, from: number): number {
    let at = from
    for (;;) {
      const newline = chunk.indexOf(LF, at)
      if (newline < 0) {
        this.#partial(chunk, at)
        return -1
      }
      const bare = newline === at || (newline === at + 1 && chunk[at] === CR)
      if (!this.#inLine && bare) {
        this.#closedData = this.#hasData
        this.#hasData = this.#inEvent = false
        return newline + 1
      }
      if (!this.#inLine && chunk[at] === DATA) this.#hasData = true
      this.#inLine = false
      this.#inEvent = true
      at = newline + 1
    }
  }

  #partial(chunk: Uint8Array, at: number): void {
    const left = chunk.length - at
    // A lone CR may be half of the blank line's CRLF.
    if (left === 0 || (left === 1 && chunk[at] === CR)) return
    if (!this.#inLine && chunk[at] === DATA) this.#hasData = true
    this.#inLine = true
  }
}
