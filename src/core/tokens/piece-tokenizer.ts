import { AddedTokenFinder } from './added-token-finder.ts'
import { endOfPairs, endOfWord, markBlanks } from './characters.ts'
import type { IdBuffer } from './id-buffer.ts'
import { type Normalizer, normalizerOf, type NormalStep } from './normalize.ts'
import { CACHED_BYTES, PieceCache } from './piece-cache.ts'
import { createPieceCoder, type PieceCoder } from './piece-coder.ts'
import { type PieceEnd, pieceEnds } from './pre-tokenize.ts'
import type { ExactTokenizer } from './prompt-analyzer.ts'
import { SegmentCache } from './segment-cache.ts'
import { Utf8Buffer } from './utf8-buffer.ts'
import type { EncodeUtf8 } from './utf8.ts'
import { hashBytes, type Vocabulary, type VocabularyHeader } from './vocabulary.ts'

interface PieceTokenizerOptions {
  readonly vocabulary: Vocabulary
  readonly encodeUtf8: EncodeUtf8
  /** Limit of the cache of message ids, bytes. Default: 8 MB. */
  readonly cacheBytes?: number
}

/** Shorter texts are not cached, because a lookup costs as much as the work. */
const CACHED_CHARS = 64

const CACHE_BYTES = 8 * 1024 * 1024

/** Steps of normalization before the search for normalized added tokens. */
export const normalStepsOf = ({
  characters,
  nfc,
}: Pick<VocabularyHeader, 'characters' | 'nfc'>): readonly NormalStep[] =>
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
    this.#normalize = normalizerOf(normalStepsOf(header))
    this.#added = new AddedTokenFinder(header.added.filter((token) => !token.normalized))
    this.#addedAfterNormal = new AddedTokenFinder(header.added.filter((token) => token.normalized))
    this.#utf8 = new Utf8Buffer(encodeUtf8)
    this.#coder = createPieceCoder(vocabulary)
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
    this.#divideAt(this.#added, text, out, (from, to) => this.#segment(text, from, to, out))
    if (addSpecial) out.append(suffix)
  }

  /** Writes the ids of the added tokens of `text`, and calls `between` for the text between them. */
  #divideAt(finder: AddedTokenFinder, text: string, out: IdBuffer, between: (from: number, to: number) => void): void {
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
    let encoded = text
    this.#divideAt(this.#addedAfterNormal, normal, out, (from, to) => {
      const part = normal.slice(from, to)
      const marked = words === undefined ? part : markBlanks(words, part, atStart && from === 0)
      if (marked !== encoded) {
        utf8.clear()
        utf8.add(marked)
        encoded = marked
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
