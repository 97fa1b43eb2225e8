/** Where server-sent events begin and end (WHATWG HTML, 9.2.6), over bytes that arrive cut anywhere. */

const LF = 10
const CR = 13
const COLON = 58
/** `d`, the first letter of `data` and of no other field. */
const DATA = 100

/** Walks from event to event. One state machine for all chunks of a stream; nothing is kept but its state. */
export class EventWalker {
  #line = false
  #data = false
  #open = false
  #closedData = false

  /** No event is half passed. */
  get atBoundary(): boolean {
    return !this.#open && !this.#line
  }

  /** Had the event that `next` just closed a `data` line? */
  get closedData(): boolean {
    return this.#closedData
  }

  /** Index after the blank line that ends the event going on at `from`; -1 when the chunk ends first. */
  next(chunk: Uint8Array, from: number): number {
    let at = from
    for (;;) {
      const newline = chunk.indexOf(LF, at)
      if (newline < 0) {
        this.#partial(chunk, at)
        return -1
      }
      const bare = newline === at || (newline === at + 1 && chunk[at] === CR)
      if (!this.#line && bare) {
        this.#closedData = this.#data
        this.#data = this.#open = false
        return newline + 1
      }
      if (!this.#line && chunk[at] === DATA) this.#data = true
      this.#line = false
      this.#open = true
      at = newline + 1
    }
  }

  #partial(chunk: Uint8Array, at: number): void {
    const left = chunk.length - at
    // A lone CR may be half of the blank line's CRLF.
    if (left === 0 || (left === 1 && chunk[at] === CR)) return
    if (!this.#line && chunk[at] === DATA) this.#data = true
    this.#line = true
  }
}

/**
 * Finds the first byte that is more than a keep-alive. Engines may send SSE comments while they prefill;
 * taking one for the first token would end failover too soon and teach the rates nonsense.
 */
export class Prelude {
  #comment = false

  /** Does the chunk, or this range of it, hold anything but comments and blank lines? */
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
