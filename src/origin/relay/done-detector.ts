/**
 * Detects the end mark of a stream. OpenAI's streams end in `data: [DONE]`; a failed engine may close the connection
 * cleanly without it.
 */
import { COLON, DATA, LF } from './sse-bytes.ts'

/** Bytes kept: the mark, the blank line, and one or two comments after it. */
const KEPT_BYTES = 128

/** The space is optional (TGI leaves it out), and keep-alive comments may follow. */
const MARK = /(?:^|[\r\n])data: ?\[DONE\][ \t]*(?:[\r\n](?::[^\r\n]*)?)*$/

const REMARKS = /^(?:[\r\n]|:[^\r\n]*(?:[\r\n]|$))*$/

const latin1 = new TextDecoder('latin1')

/** `[DONE]` */
const DONE = Uint8Array.of(91, 68, 79, 78, 69, 93)

const DATA_BYTES = 5

/** A range of bytes. */
interface ByteRange {
  readonly from: number
  readonly to: number
  readonly whole: boolean
}

/** Whether the range is one line and the blank line that ends its event. */
export function isOneLine(bytes: Uint8Array, from: number, to: number): boolean {
  return (
    to - from > 2 &&
    bytes[to - 1] === LF &&
    bytes[to - 2] === LF &&
    bytes[from] !== LF &&
    bytes.indexOf(LF, from) === to - 2
  )
}

/** Keeps the last bytes of a stream. */
export class DoneDetector {
  /** Bytes after the last whole event. null: none. */
  #kept: Uint8Array | null = null
  #size = 0
  #isDone = false

  /** Takes the next bytes of the stream. `whole`: they are exactly one event. */
  take(bytes: Uint8Array, { from, to, whole }: ByteRange): void {
    if (!whole || !isOneLine(bytes, from, to) || (bytes[from] !== DATA && bytes[from] !== COLON))
      this.#keep(bytes.subarray(from, to))
    else if (bytes[from] === DATA) this.event(bytes, from, to)
  }

  /** Takes one whole event with one `data` line. */
  event(bytes: Uint8Array, from: number, to: number): void {
    this.#kept = null
    this.#size = 0
    const at = bytes[from + DATA_BYTES] === 32 ? from + DATA_BYTES + 1 : from + DATA_BYTES
    this.#isDone = at + DONE.length + 2 === to && DONE.every((byte, i) => bytes[at + i] === byte)
  }

  #keep(bytes: Uint8Array): void {
    const kept = (this.#kept ??= new Uint8Array(KEPT_BYTES))
    const { length } = bytes
    if (length >= KEPT_BYTES) {
      kept.set(bytes.subarray(length - KEPT_BYTES))
      this.#size = KEPT_BYTES + 1
      return
    }
    kept.copyWithin(0, length)
    kept.set(bytes, KEPT_BYTES - length)
    this.#size += length
  }

  /** Only blanks and comments follow the mark. */
  get done(): boolean {
    if (this.#kept === null) return this.#isDone
    const text = latin1.decode(this.#kept.subarray(Math.max(0, KEPT_BYTES - this.#size)))
    return MARK.test(text) || (this.#isDone && this.#size <= KEPT_BYTES && REMARKS.test(text))
  }
}
