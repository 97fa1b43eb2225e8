import type { IdBuffer } from './id-buffer.ts'
import type { ExactTokenizer } from './prompt-analyzer.ts'
import { BpeMerger } from './bpe-merge.ts'
import { endOfPairs, endOfWord, withMarks } from './characters.ts'
import { normalizerOf, type NormalStep, type Normalizer } from './normalize.ts'
import { pieceEnds, type PieceEnd } from './pre-tokenize.ts'
import { UnigramSearch } from './unigram.ts'
import { SegmentCache } from './segment-cache.ts'
import { Utf8Buffer, type EncodeUtf8 } from './utf8.ts'
import { hashBytes, type AddedToken, type Vocabulary, type VocabularyHeader } from './vocabulary.ts'

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

export interface PieceTokenizerOptions {
  readonly vocabulary: Vocabulary
  readonly encodeUtf8: EncodeUtf8
  /** Limit of the cache of message ids, bytes. Default: 8 MB. */
  readonly cacheBytes?: number
}

/** Shorter texts are not cached, because a lookup costs as much as the work. */
const CACHED_CHARS = 64
const CACHE_BYTES = 8 * 1024 * 1024

/** Ids of one piece of text. */
interface PieceCoder {
  /** Call before each text. */
  begin(): void
  /** Appends the ids of `bytes[from, to)`. Throws for a piece that takes too long. */
  merge(bytes: Uint8Array, from: number, to: number, out: IdBuffer): void
  /** Steps so far. Tests check that they grow linearly. */
  readonly steps: number
}

export function coderOf(vocabulary: Vocabulary): PieceCoder {
  const { characters } = vocabulary.header
  return characters?.model === 'unigram'
    ? new UnigramSearch(vocabulary, characters.unknown, characters.bytes)
    : new BpeMerger(vocabulary)
}

/** Steps of normalization before the search for normalized added tokens. */
export const stepsOf = ({ characters, nfc }: Pick<VocabularyHeader, 'characters' | 'nfc'>): readonly NormalStep[] =>
  characters?.steps ?? (nfc ? [{ kind: 'nfc' }] : [])

function pieceEndOf({ header, pairs }: Vocabulary): PieceEnd {
  const { characters } = header
  if (characters === undefined) return pieceEnds[header.preTokenizer]
  if (pairs === null) return endOfWord
  return endOfPairs(
    pairs,
    characters.words.kind === 'words' || (characters.words.kind === 'metaspace' && characters.words.split),
  )
}

/**
 * Tokenizer with the ids of Hugging Face's `tokenizers`. Added tokens divide a text, so its ids are the concatenation
 * of the ids of the segments between them; each segment (usually a message) is cached. A segment is divided into
 * pieces, which are encoded by BPE or Unigram.
 */
export class PieceTokenizer implements ExactTokenizer {
  readonly #vocabulary: Vocabulary
  readonly #pieceEnd: PieceEnd
  readonly #added: AddedTokenFinder
  readonly #addedAfterNormal: AddedTokenFinder
  readonly #normalize: Normalizer
  readonly #utf8: Utf8Buffer
  readonly #coder: PieceCoder
  readonly #pieces = new PieceCache()
  readonly #segments: SegmentCache

  constructor({ vocabulary, encodeUtf8, cacheBytes = CACHE_BYTES }: PieceTokenizerOptions) {
    const { header } = vocabulary
    this.#vocabulary = vocabulary
    this.#pieceEnd = pieceEndOf(vocabulary)
    this.#normalize = normalizerOf(stepsOf(header))
    this.#added = new AddedTokenFinder(header.added.filter((token) => !token.normalized))
    this.#addedAfterNormal = new AddedTokenFinder(header.added.filter((token) => token.normalized))
    this.#utf8 = new Utf8Buffer(encodeUtf8)
    this.#coder = coderOf(vocabulary)
    this.#segments = new SegmentCache(cacheBytes)
  }

  /** Steps of merging or searching since the start. Linear in the length of the text. */
  get steps(): number {
    return this.#coder.steps
  }

  /** See `ExactTokenizer`. Throws for texts that take too long; natural language never does. */
  encode(text: string, addSpecial: boolean, out: IdBuffer): void {
    const { prefix, suffix } = this.#vocabulary.header
    this.#coder.begin()
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
    const atStart = from === 0
    if (to - from < CACHED_CHARS) {
      this.#normalized(segment, atStart, out)
      return
    }
    // The start of a prompt may get a mark, so it is another text there.
    const key = atStart && this.#vocabulary.header.characters !== undefined ? -utf8.hash() : utf8.hash()
    const known = this.#segments.get(key)
    if (known !== undefined) {
      out.append(known)
      return
    }
    const first = out.length
    this.#normalized(segment, atStart, out)
    this.#segments.set(key, out.ids.slice(first, out.length))
  }

  /** Appends the ids of a text that is in the buffer already. `atStart`: it is the start of the prompt. */
  #normalized(text: string, atStart: boolean, out: IdBuffer): void {
    const utf8 = this.#utf8
    const words = this.#vocabulary.header.characters?.words
    const normal = this.#normalize(text)
    let held = text
    this.#cutAt(this.#addedAfterNormal, normal, out, (from, to) => {
      const part = normal.slice(from, to)
      const marked = words === undefined ? part : withMarks(words, part, atStart && from === 0)
      if (marked !== held) {
        utf8.clear()
        utf8.add(marked)
        held = marked
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
      this.#coder.merge(bytes, from, to, out)
      return
    }
    const slot = this.#pieces.find(bytes, from, to, hash)
    if (slot >= 0) {
      this.#pieces.append(slot, out)
      return
    }
    const first = out.length
    this.#coder.merge(bytes, from, to, out)
    this.#pieces.store({ bytes, from, to }, hash, out, out.length - first)
  }
}
