import { concatBytes } from '../../core/bytes.ts'
import { EventBoundaries } from '../../protocols/stream/boundaries.ts'

const NOTHING = new Uint8Array(0)

/** Splits a stream of bytes into events. */
export class EventSplitter {
  readonly #boundaries = new EventBoundaries()
  /** Beginning of an event that is not complete. */
  #rest = NOTHING

  /** Returns whole events in one piece of memory, and the end of each; what is left waits for more bytes. */
  take(chunk: Uint8Array): { readonly bytes: Uint8Array; readonly ends: readonly number[] } {
    const before = this.#rest.length
    const ends: number[] = []
    for (let at = 0; at < chunk.length;) {
      at = this.#boundaries.next(chunk, at, chunk.length)
      if (at < 0) break
      ends.push(before + at)
    }
    const bytes = before === 0 ? chunk : concatBytes([this.#rest, chunk], before + chunk.length)
    const whole = ends.at(-1) ?? 0
    // A copy, which `slice` of a Node buffer is not: the reader of the events may change them.
    this.#rest = whole === bytes.length ? NOTHING : new Uint8Array(bytes.subarray(whole))
    return { bytes, ends }
  }
}
