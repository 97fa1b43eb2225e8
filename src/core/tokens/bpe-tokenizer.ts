import type { IdBuffer } from './id-buffer.ts'
import type { ExactTokenizer } from './prompt-analyzer.ts'
import { BpeMerger } from './bpe-merge.ts'
import { pieceEnds, type PieceEnd } from './pre-tokenize.ts'
import { SegmentCache } from './segment-cache.ts'
import { Utf8Buffer, type EncodeUtf8 } from './utf8.ts'
import { hashBytes, type Vocabulary, type AddedToken } from './vocabulary.ts'

const SLOTS = 1 << 14
const ARENA_BYTES = 512 * 1024
const ARENA_IDS = 128 * 1024
/** Longest piece in the cache, bytes; longer ones repeat too rarely. */
export const CACHED_BYTES = 64

export interface Piece {
  readonly bytes: Uint8Array
  readonly from: number
  readonly to: number
}

/**
 * Cache of ids of merged pieces, such as words that are not one token. Fixed memory (about 1.3 MB): one slot per hash;
 * a newer piece replaces the older one, and the cache is cleared when its space for bytes or ids is full.
 */
export class PieceCache {
  /** Per slot: start and length of the bytes, start and number of the ids. Length 0: empty. */
  readonly #slots = new Int32Array(SLOTS * 4)
  readonly #bytes = new Uint8Array(ARENA_BYTES)
  readonly #ids = new Uint32Array(ARENA_IDS)
  #usedBytes = 0
  #usedIds = 0

  /** Slot of a cached piece. -1: not cached. `hash` is the hash of the bytes. */
  find(bytes: Uint8Array, from: number, to: number, hash: number): number {
    const slot = (hash & (SLOTS - 1)) * 4
    if (this.#slots[slot + 1] !== to - from) return -1
    let at = this.#slots[slot] as number
    for (let i = from; i < to; i++) if (bytes[i] !== this.#bytes[at++]) return -1
    return slot
  }

  /** Appends the ids of the piece in `slot`. */
  append(slot: number, out: IdBuffer): void {
    const start = this.#slots[slot + 2] as number
    const count = this.#slots[slot + 3] as number
    const target = out.reserve(count)
    for (let i = start; i < start + count; i++) target[out.length++] = this.#ids[i] as number
  }

  /** Stores the last `count` ids of `out` for the piece `bytes[from, to)` with this hash. */
  store(piece: Piece, hash: number, out: IdBuffer, count: number): void {
    const { bytes, from, to } = piece
    if (this.#usedBytes + to - from > ARENA_BYTES || this.#usedIds + count > ARENA_IDS) {
      this.#slots.fill(0)
      this.#usedBytes = 0
      this.#usedIds = 0
    }
    const slots = this.#slots
    const slot = (hash & (SLOTS - 1)) * 4
    slots[slot] = this.#usedBytes
    slots[slot + 1] = to - from
    slots[slot + 2] = this.#usedIds
    slots[slot + 3] = count
    // For short moves loops are faster than `set` and the views it needs.
    for (let i = from; i < to; i++) this.#bytes[this.#usedBytes++] = bytes[i] as number
    for (let i = out.length - count; i < out.length; i++) this.#ids[this.#usedIds++] = out.ids[i] as number
  }
}

/** Added token found in a text. */
export interface FoundToken {
  readonly id: number
  readonly from: number
  readonly to: number
}

const space = /\p{White_Space}/u

/** Node of a trie of added tokens: the next nodes by UTF-16 unit, and the token that ends here. */
class Beginning extends Map<string, Beginning> {
  token: AddedToken | null = null
}

/** Finds added tokens: the leftmost, and of several that start there the longest. */
export class AddedTokenFinder {
  /** A trie, because hundreds of tokens share a prefix: comparing each of them would take seconds for some texts. */
  readonly #none = new Beginning()
  readonly #first: RegExp
  /** The single first unit of all tokens, usually `<`, which a plain search finds faster. */
  readonly #onlyFirst: string | undefined

  constructor(tokens: readonly AddedToken[]) {
    for (const token of tokens) {
      let beginning = this.#none
      for (const unit of token.text.split('')) {
        const longer = beginning.get(unit) ?? new Beginning()
        beginning.set(unit, longer)
        beginning = longer
      }
      beginning.token = token
    }
    const firsts = [...this.#none.keys()]
    this.#onlyFirst = firsts.length === 1 ? firsts[0] : undefined
    // Without tokens it matches nothing.
    this.#first = new RegExp(`[${firsts.join('').replace(/[\]\\^-]/g, '\\$&')}]`, 'g')
  }

  /** The first token at or after `from`, with the white space it includes. null: none. */
  find(text: string, from: number): FoundToken | null {
    for (let at = this.#nextFirst(text, from); at >= 0; at = this.#nextFirst(text, at + 1)) {
      const token = this.#longest(text, at)
      if (token !== null) return widened(token, text, at, from)
    }
    return null
  }

  /** Next possible start of an added token, at or after `from`. -1: none. */
  #nextFirst(text: string, from: number): number {
    if (this.#onlyFirst !== undefined) return text.indexOf(this.#onlyFirst, from)
    this.#first.lastIndex = from
    return this.#first.exec(text)?.index ?? -1
  }

  #longest(text: string, at: number): AddedToken | null {
    let token: AddedToken | null = null
    let beginning = this.#none.get(text.charAt(at))
    for (let i = at + 1; beginning !== undefined; i++) {
      token = beginning.token ?? token
      beginning = beginning.get(text.charAt(i))
    }
    return token
  }
}

function widened(token: AddedToken, text: string, at: number, least: number): FoundToken {
  let from = at
  let to = at + token.text.length
  if (token.left) while (from > least && space.test(text.charAt(from - 1))) from--
  if (token.right) while (to < text.length && space.test(text.charAt(to))) to++
  return { id: token.id, from, to }
}

export interface BpeTokenizerOptions {
  readonly vocabulary: Vocabulary
  readonly encodeUtf8: EncodeUtf8
  /** Limit of the cache of message ids, bytes. Default: 8 MB. */
  readonly cacheBytes?: number
}

/** Shorter texts are not cached, because a lookup costs as much as the work. */
const CACHED_CHARS = 64
const CACHE_BYTES = 8 * 1024 * 1024

/**
 * Byte-level BPE with the ids of Hugging Face's `tokenizers`. Added tokens divide a text, so its ids are the
 * concatenation of the ids of the segments between them; each segment (usually a message) is cached.
 */
export class BpeTokenizer implements ExactTokenizer {
  readonly #vocabulary: Vocabulary
  readonly #pieceEnd: PieceEnd
  readonly #added: AddedTokenFinder
  readonly #addedAfterNfc: AddedTokenFinder
  readonly #utf8: Utf8Buffer
  readonly #merger: BpeMerger
  readonly #pieces = new PieceCache()
  readonly #segments: SegmentCache

  constructor({ vocabulary, encodeUtf8, cacheBytes = CACHE_BYTES }: BpeTokenizerOptions) {
    const { header } = vocabulary
    this.#vocabulary = vocabulary
    this.#pieceEnd = pieceEnds[header.preTokenizer]
    this.#added = new AddedTokenFinder(header.added.filter((token) => !token.normalized))
    this.#addedAfterNfc = new AddedTokenFinder(header.added.filter((token) => token.normalized))
    this.#utf8 = new Utf8Buffer(encodeUtf8)
    this.#merger = new BpeMerger(vocabulary)
    this.#segments = new SegmentCache(cacheBytes)
  }

  /** Merging steps since the start. Linear in the length of the text. */
  get steps(): number {
    return this.#merger.steps
  }

  /** See `ExactTokenizer`. Throws for texts that take too long; natural language never does. */
  encode(text: string, addSpecial: boolean, out: IdBuffer): void {
    const { prefix, suffix } = this.#vocabulary.header
    this.#merger.begin()
    if (addSpecial) out.append(prefix)
    this.#cutAt(this.#added, text, out, (from, to) => this.#segment(text, from, to, out))
    if (addSpecial) out.append(suffix)
  }

  /** Writes the ids of the added tokens of `text`, and calls `between` for the text between them. */
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

  #segment(text: string, from: number, to: number, out: IdBuffer): void {
    const segment = text.slice(from, to)
    const utf8 = this.#utf8
    utf8.clear()
    utf8.add(segment)
    if (to - from < CACHED_CHARS) {
      this.#normalized(segment, out)
      return
    }
    const key = utf8.hash()
    const known = this.#segments.get(key)
    if (known !== undefined) {
      out.append(known)
      return
    }
    const first = out.length
    this.#normalized(segment, out)
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
    for (let at = 0; at < end;) {
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

/**
 * Normalizes to NFC. Throws at 127 combining marks in a row, and may from 32 on, because ordering them takes quadratic
 * time, up to hours.
 */
function nfc(text: string): string {
  // A longer run contains one of these positions with enough marks after it; two units form at most one mark.
  for (let at = 0; at < text.length; at += 64) {
    marks.lastIndex = at
    if (marks.test(text)) throw new Error('more combining marks in a row than any language has')
  }
  return text.normalize('NFC')
}
