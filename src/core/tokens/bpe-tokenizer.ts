import { AddedTokenFinder } from './added-tokens.ts'
import type { IdBuffer } from './id-buffer.ts'
import type { ExactTokenizer } from './measure.ts'
import { Merger } from './merge.ts'
import { CACHED_BYTES, PieceCache } from './piece-cache.ts'
import { pieceEnds, type PieceEnd } from './pre-tokenize.ts'
import { SegmentCache } from './segment-cache.ts'
import { Utf8Buffer, type EncodeUtf8 } from './utf8-buffer.ts'
import { hashBytes, type Vocabulary } from './vocabulary.ts'

export interface BpeTokenizerOptions {
  readonly vocabulary: Vocabulary
  readonly encodeUtf8: EncodeUtf8
  /** Bound of the cache of message ids; 8 MB when absent. */
  readonly cacheBytes?: number
}

/** Below this a lookup costs as much as the work. */
const CACHED_CHARS = 64
const CACHE_BYTES = 8 * 1024 * 1024

/**
 * Byte-level BPE with ids identical to Hugging Face's `tokenizers`. Text is cut at added tokens first, so ids are the
 * concatenation of the ids of the stretches in between, and each stretch (a message, mostly) is cached.
 */
export class BpeTokenizer implements ExactTokenizer {
  readonly #vocabulary: Vocabulary
  readonly #pieceEnd: PieceEnd
  readonly #added: AddedTokenFinder
  readonly #addedAfterNfc: AddedTokenFinder
  readonly #utf8: Utf8Buffer
  readonly #merger: Merger
  readonly #pieces = new PieceCache()
  readonly #segments: SegmentCache

  constructor({ vocabulary, encodeUtf8, cacheBytes = CACHE_BYTES }: BpeTokenizerOptions) {
    const { header } = vocabulary
    this.#vocabulary = vocabulary
    this.#pieceEnd = pieceEnds[header.preTokenizer]
    this.#added = new AddedTokenFinder(header.added.filter((token) => !token.normalized))
    this.#addedAfterNfc = new AddedTokenFinder(header.added.filter((token) => token.normalized))
    this.#utf8 = new Utf8Buffer(encodeUtf8)
    this.#merger = new Merger(vocabulary)
    this.#segments = new SegmentCache(cacheBytes)
  }

  /** Merging steps taken since the start; grows with the text, not with its square. */
  get steps(): number {
    return this.#merger.steps
  }

  /** See `ExactTokenizer`. Throws for texts that would hold the thread for long, which are no language. */
  encode(text: string, addSpecial: boolean, out: IdBuffer): void {
    const { prefix, suffix } = this.#vocabulary.header
    this.#merger.begin()
    if (addSpecial) out.append(prefix)
    this.#cutAt(this.#added, text, out, (from, to) => this.#stretch(text, from, to, out))
    if (addSpecial) out.append(suffix)
  }

  /** Writes the added tokens of `text` and calls `between` for what lies between them. */
  #cutAt(finder: AddedTokenFinder, text: string, out: IdBuffer, between: (from: number, to: number) => void): void {
    let at = 0
    while (at < text.length) {
      const found = finder.find(text, at)
      const end = found === null ? text.length : found.from
      if (end > at) between(at, end)
      if (found === null) return
      out.push(found.id)
      at = found.to
    }
  }

  #stretch(text: string, from: number, to: number, out: IdBuffer): void {
    const stretch = text.slice(from, to)
    const utf8 = this.#utf8
    utf8.clear()
    utf8.add(stretch)
    if (to - from < CACHED_CHARS) {
      this.#normalized(stretch, out)
      return
    }
    const key = utf8.hash()
    const known = this.#segments.get(key)
    if (known !== undefined) {
      out.append(known)
      return
    }
    const first = out.length
    this.#normalized(stretch, out)
    this.#segments.set(key, out.ids.slice(first, out.length))
  }

  /** Appends the ids of a text that is in the buffer already. */
  #normalized(text: string, out: IdBuffer): void {
    const utf8 = this.#utf8
    const normal = this.#vocabulary.header.nfc && utf8.length > text.length ? nfc(text) : text
    this.#cutAt(this.#addedAfterNfc, normal, out, (from, to) => {
      const whole = from === 0 && to === text.length && normal === text
      if (!whole) {
        utf8.clear()
        utf8.add(normal.slice(from, to))
      }
      this.#pieceIds(utf8.bytes, utf8.length, out)
    })
  }

  #pieceIds(bytes: Uint8Array, end: number, out: IdBuffer): void {
    const pieceEnd = this.#pieceEnd
    const text = { bytes, classes: this.#vocabulary.classes }
    for (let at = 0; at < end; ) {
      const to = pieceEnd(text, at, end)
      this.#piece(bytes, at, to, out)
      at = to
    }
  }

  #piece(bytes: Uint8Array, from: number, to: number, out: IdBuffer): void {
    const vocabulary = this.#vocabulary
    if (to - from === 1) {
      out.push(vocabulary.byteIds[bytes[from] as number] as number)
      return
    }
    const hash = hashBytes(bytes, from, to)
    if (to - from <= vocabulary.longest) {
      const id = vocabulary.find(bytes, from, to, hash)
      if (id >= 0 && vocabulary.isDirect(id)) {
        out.push(id)
        return
      }
    }
    if (to - from > CACHED_BYTES) {
      this.#merger.merge(bytes, from, to, out)
      return
    }
    const slot = this.#pieces.find(bytes, from, to, hash)
    if (slot >= 0) {
      this.#pieces.append(slot, out)
      return
    }
    const first = out.length
    this.#merger.merge(bytes, from, to, out)
    this.#pieces.store({ bytes, from, to }, hash, out, out.length - first)
  }
}

const marks = /\p{M}{32}/uy

/** Throws at 127 combining marks in a row, and may from 32 on: the work to put them in order grows with their square, up to hours. */
function nfc(text: string): string {
  // A longer run has one of these places with enough marks after it; two units make one at most.
  for (let at = 0; at < text.length; at += 64) {
    marks.lastIndex = at
    if (marks.test(text)) throw new Error('more combining marks in a row than any language has')
  }
  return text.normalize('NFC')
}
