/** Output of a stream that the gateway may have to continue. */
import { IdBuffer } from '../tokens/id-buffer.ts'
import { TextHash } from './text-hash.ts'

/** Minimum length, UTF-16 units, of the end of the text that is kept. Longer stop strings keep more. */
const KEPT_TEXT = 64

/** The chunk with the first text of an output whose beginning a parser removed. */
interface TextStart {
  /** Index of its first id in the output. */
  readonly at: number
  readonly ids: number
  /** Length of its text, UTF-16 units. */
  readonly length: number
}

/**
 * Token ids of the prompt and the output, and a hash of the text that was sent to the client. Four bytes for each
 * token, and a few hundred for the rest: the text itself is not kept.
 */
export class OutputRecord {
  /** Ids of the prompt as the first engine made them; null: not received. */
  promptIds: Uint32Array | null = null
  /** null: the text begins with the first id. */
  textStart: TextStart | null = null
  readonly #ids = new IdBuffer(64)
  /** Ids that were sent and dropped, and are not generated again yet. */
  readonly #dropped: number[] = []
  readonly #text = new TextHash()
  /** The last UTF-16 units of the text; the one after `length` units is at `length % size`. */
  readonly #kept: Uint16Array

  /** @param longestStop length of the longest stop string, UTF-16 units */
  constructor(longestStop: number) {
    this.#kept = new Uint16Array(Math.max(KEPT_TEXT, longestStop))
  }

  /** Ids of the output, whose text may not be sent yet. */
  get ids(): Uint32Array {
    return this.#ids.ids.subarray(0, this.#ids.length)
  }

  get tokens(): number {
    return this.#ids.length
  }

  /** UTF-16 units that were sent. */
  get sentLength(): number {
    return this.#text.length
  }

  /** End of the text that was sent. */
  get tail(): string {
    const size = this.#kept.length
    const { length } = this.#text
    let tail = ''
    for (let at = Math.max(0, length - size); at < length; at++) tail += String.fromCharCode(this.#kept[at % size]!)
    return tail
  }

  addIds(ids: readonly number[]): void {
    this.#ids.append(ids)
  }

  addId(id: number): void {
    this.#ids.push(id)
  }

  /** Drops the ids after the first `count`. */
  keepIds(count: number): void {
    this.#ids.length = Math.min(count, this.#ids.length)
  }

  /** Drops the last id, which an engine that continues generates again. */
  dropLast(): void {
    this.#dropped.unshift(this.ids.at(-1)!)
    this.#ids.length--
  }

  /**
   * Adds ids of an engine that continues, perhaps after ids were dropped. Returns those that come after the dropped
   * ones, which were sent before; null: the engine chose others in their place.
   */
  addAgain(ids: readonly number[]): readonly number[] | null {
    this.addIds(ids)
    const again = this.#dropped.splice(0, ids.length)
    return again.every((id, at) => id === ids[at]) ? ids.slice(again.length) : null
  }

  addText(text: string): void {
    const size = this.#kept.length
    const before = this.#text.length
    for (let at = Math.max(0, text.length - size); at < text.length; at++)
      this.#kept[(before + at) % size] = text.charCodeAt(at)
    this.#text.add(text)
  }

  /** Adds text as a range of bytes, which are ASCII characters. */
  addAscii(bytes: Uint8Array, from: number, to: number): void {
    const size = this.#kept.length
    let kept = this.#text.length % size
    for (let at = from; at < to; at++) {
      this.#kept[kept] = bytes[at]!
      if (++kept === size) kept = 0
    }
    this.#text.addAscii(bytes, from, to)
  }

  /** True if `text` begins with all text that was sent. */
  beginsWithSent(text: string): boolean {
    if (text.length < this.#text.length) return false
    const hash = new TextHash()
    hash.add(text.slice(0, this.#text.length))
    return hash.value === this.#text.value
  }
}
