import { concatBytes } from '../../core/bytes.ts'
import { EventBoundaries } from './boundaries.ts'

interface WholeEvents {
  /** One piece of memory, which the caller may change. */
  readonly bytes: Uint8Array
  /** End of each event, in order. */
  readonly ends: readonly number[]
}

const NONE: WholeEvents = { bytes: new Uint8Array(0), ends: [] }

/**
 * Splits a stream of bytes into whole events. Comment lines behind the last event are handed out as an event, because a
 * heartbeat must not wait.
 */
export class EventSplitter {
  readonly #boundaries = new EventBoundaries()
  readonly #limitBytes: number
  /** Start of an event that is not complete. */
  #held: Uint8Array[] = []
  #heldBytes = 0

  /** @param limitBytes a longer event is handed out in parts */
  constructor(limitBytes = Infinity) {
    this.#limitBytes = limitBytes
  }

  /** Returns the events that this chunk completes. */
  take(chunk: Uint8Array): WholeEvents {
    const before = this.#heldBytes
    const ends: number[] = []
    let whole = 0
    for (let at = 0; at < chunk.length;) {
      at = this.#boundaries.next(chunk, at, chunk.length)
      if (at < 0) break
      whole = at
      ends.push(before + at)
    }
    const rest = (whole === 0 ? before : 0) + chunk.length - whole
    if (whole < chunk.length && (this.#boundaries.atBoundary || rest > this.#limitBytes)) {
      whole = chunk.length
      ends.push(before + whole)
    }
    if (ends.length === 0) {
      this.#hold(chunk)
      return NONE
    }
    const bytes = before === 0 ? chunk : concatBytes([...this.#held, chunk], before + chunk.length)
    this.#forget()
    if (whole < chunk.length) this.#hold(chunk.subarray(whole))
    return { bytes, ends }
  }

  /** Returns the incomplete event at the end of the stream. */
  end(): Uint8Array {
    const rest = concatBytes(this.#held, this.#heldBytes)
    this.#forget()
    return rest
  }

  #hold(piece: Uint8Array): void {
    // A copy: the caller may reuse the memory.
    this.#held.push(new Uint8Array(piece))
    this.#heldBytes += piece.length
  }

  #forget(): void {
    this.#held = []
    this.#heldBytes = 0
  }
}
