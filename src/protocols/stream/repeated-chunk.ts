/**
 * Recognizes chunks without text that streams repeat: the role, the finish reason, `[DONE]`. They are equal in their
 * bytes from `"choices"` on; id, time and model before only have to begin equally and to have the same length.
 */
import type { StreamEvent } from './event.ts'
import { isAt, viewOf, type Words, wordsOf } from './words.ts'

/** Longer chunks are parsed. */
const MAX_BYTES = 512
/** Bytes of `data: {"id":`. */
const START_BYTES = 12
/** Chunks that are kept: forms of the engines behind the gateway, with the lengths of their ids and names. */
const MAX_KEPT = 16
const latin1 = new TextDecoder('latin1')

interface RepeatedChunk {
  /** Bytes before `tail`. */
  readonly headBytes: number
  /** First bytes, with the name of the first member. */
  readonly start: Words
  readonly tail: Words
  readonly read: StreamEvent
}

/** Chunks of one grammar, for all streams: they have no text of a request or an answer. */
export class RepeatedChunks {
  readonly #kept: RepeatedChunk[] = []

  /** Meaning of the range, which is one whole event. null: it is not known. */
  find(bytes: Uint8Array, from: number, to: number): StreamEvent | null {
    const view = viewOf(bytes)
    const at = bytes.byteOffset + from
    for (const { headBytes, start, tail, read } of this.#kept)
      if (to - from === headBytes + tail.bytes && isAt(view, at + headBytes, tail) && isAt(view, at, start)) return read
    return null
  }

  /** @param read without text and usage */
  add(event: Uint8Array, read: StreamEvent): void {
    if (event.length > MAX_BYTES || event.length < START_BYTES) return
    const headBytes = Math.max(0, latin1.decode(event).indexOf('"choices"'))
    const start = wordsOf(event.subarray(0, START_BYTES))
    this.#kept.unshift({ headBytes, start, tail: wordsOf(event.subarray(headBytes)), read })
    if (this.#kept.length > MAX_KEPT) this.#kept.pop()
  }
}
