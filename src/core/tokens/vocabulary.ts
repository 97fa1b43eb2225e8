/**
 * A vocabulary as `firstlight vocab compile` writes it. Layout, little-endian: u32 magic, u32 length of
 * the header, u32 number of ids, u32 number of listed merges; the header as ASCII JSON; one byte per id with its
 * length in bytes (0: never made by merging); one byte per id with the length of the left half it is merged from;
 * the bytes of all ids joined; the listed merges as u32 each (id × 256 + left length).
 */
import type { PreTokenizer } from './pre-tokenize.ts'
import { CharacterPairs } from './character-pairs.ts'
import { widthOf } from './utf8.ts'
import type { CharacterRules } from './characters.ts'
import { readClasses, type CharacterClasses } from './unicode.ts'

export const MAGIC = 0x32564c46
export const HEAD_BYTES = 16
/** Ids must fit beside 12 bits of hash in one table entry. */
export const MAX_IDS = 1 << 19
/** A symbol is an id and, in these lowest bits, its length in bytes. */
export const SYMBOL_BITS = 3
export const SYMBOL_LENGTH = (1 << SYMBOL_BITS) - 1

/** Source of compiled vocabularies: a file on Node; KV, R2 or assets on Workers. Rejects for an unknown name. */
export type VocabularySource = (name: string) => Promise<Uint8Array>

/**
 * A vocabulary that is incomplete, or that this tokenizer cannot reproduce exactly. The message names the next step.
 */
export class VocabularyError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'VocabularyError'
  }
}

export interface AddedToken {
  readonly id: number
  readonly text: string
  /** Includes white space on that side. */
  readonly left: boolean
  readonly right: boolean
  /** Searched after normalization. */
  readonly normalized: boolean
}

export interface VocabularyHeader {
  readonly preTokenizer: PreTokenizer
  /** Absent: tokens are made of bytes. Otherwise `preTokenizer` and `nfc` have no effect. */
  readonly characters?: CharacterRules
  readonly classes: CharacterClasses
  readonly nfc: boolean
  /** A piece that equals a token is that token, whatever the merges produce. */
  readonly ignoreMerges: boolean
  /**
   * `one`: each token has one merge, in id order. `all`: every split into two tokens is a merge. `list`: as listed.
   * `scores`: none; instead of them a score per token is stored, as two words each.
   */
  readonly merges: 'one' | 'all' | 'list' | 'scores'
  readonly added: readonly AddedToken[]
  /** Ids before and after a text with special tokens. */
  readonly prefix: readonly number[]
  readonly suffix: readonly number[]
  /** Tokens that merging does not produce from their own bytes. */
  readonly indirect: readonly number[]
  readonly template: string | null
  /** `bos_token` and similar tokens, for the template. */
  readonly specials: Readonly<Record<string, string>>
}

/** Hash of `bytes[from, to)` for the table below. */
export function hashBytes(bytes: Uint8Array, from: number, to: number): number {
  let hash = to - from
  for (let i = from; i < to; i++) hash = Math.imul(hash ^ (bytes[i] as number), 0x01000193)
  hash ^= hash >>> 15
  hash = Math.imul(hash, 0x2c1b3c6d)
  return hash ^ (hash >>> 13)
}

const EMPTY = -1

export class Vocabulary {
  readonly header: VocabularyHeader
  readonly size: number
  /** Class bits of each code point. */
  readonly classes: Uint8Array
  /** Longest token, bytes. */
  readonly longest: number
  /** Score of each token in a Unigram vocabulary; otherwise empty. */
  readonly scores: Float64Array
  /** Characters side by side in tokens, if tokens are made of characters. */
  readonly pairs: CharacterPairs | null
  /** Id of each single byte. Of unknown ones, if tokens are made of characters: the id that stands for them. */
  readonly byteIds = new Uint32Array(256)
  readonly #bytes: Uint8Array
  readonly #offsets: Uint32Array
  readonly #left: Uint8Array
  readonly #table: Int32Array
  readonly #mask: number
  readonly #listed: MergeList | null
  /** By id; 1: a piece equal to the token is not always this token. */
  readonly #indirect: Uint8Array
  /** Id of the token of two bytes, by the first times 256 plus the second. -1: none. */
  readonly #pairs = new Int32Array(256 * 256).fill(-1)

  /** Reads a compiled vocabulary (not compressed). Throws a VocabularyError. */
  constructor(file: Uint8Array) {
    const { header, size, merges, at } = readHead(file)
    this.header = header
    this.classes = readClasses(header.classes)
    this.size = size
    this.#indirect = new Uint8Array(size)
    if (!header.ignoreMerges) for (const id of header.indirect) this.#indirect[id] = 1
    const lengths = file.subarray(at, at + size)
    this.#left = file.slice(at + size, at + 2 * size)
    this.#offsets = new Uint32Array(size + 1)
    let longest = 0
    for (let id = 0; id < size; id++) {
      const length = lengths[id] as number
      if (length > longest) longest = length
      this.#offsets[id + 1] = (this.#offsets[id] as number) + length
    }
    this.longest = longest
    const start = at + 2 * size
    const end = start + (this.#offsets[size] as number)
    if (end + merges * 4 !== file.length)
      throw new VocabularyError('the compiled vocabulary is truncated or damaged: compile it again')
    this.#bytes = file.slice(start, end)
    this.#listed = header.merges === 'list' ? new MergeList(file.subarray(end), merges) : null
    this.scores = header.merges === 'scores' ? readScores(file.subarray(end), merges) : new Float64Array(0)
    let capacity = 1024
    while (capacity < size * 2) capacity *= 2
    this.#mask = capacity - 1
    this.#table = new Int32Array(capacity).fill(EMPTY)
    this.pairs = header.characters?.model === 'bpe' ? new CharacterPairs() : null
    if (header.characters !== undefined) this.#fillBytes(header.characters)
    this.#fill()
  }

  #fillBytes({ bytes, unknown }: CharacterRules): void {
    if (bytes === null) this.byteIds.fill(unknown)
    else this.byteIds.set(bytes)
  }

  #fill(): void {
    for (let id = 0; id < this.size; id++) {
      const from = this.#offsets[id] as number
      const to = this.#offsets[id + 1] as number
      if (from === to) continue
      const first = this.#bytes[from] as number
      if (to - from === 1) this.byteIds[first] = id
      else this.pairs?.add(this.#bytes, from, to)
      if (to - from === 2) this.#pairs[first * 256 + (this.#bytes[from + 1] as number)] = id
      const hash = hashBytes(this.#bytes, from, to)
      let slot = hash & this.#mask
      while (this.#table[slot] !== EMPTY) slot = (slot + 1) & this.#mask
      this.#table[slot] = id | (hash & TAG)
    }
  }

  /** Id of the token `bytes[from, to)`. -1: none. `hash` is the hash of the bytes. */
  find(bytes: Uint8Array, from: number, to: number, hash: number): number {
    const table = this.#table
    const tag = hash & TAG
    for (let slot = hash & this.#mask; ; slot = (slot + 1) & this.#mask) {
      const entry = table[slot] as number
      if (entry === EMPTY) return -1
      if ((entry & TAG) === tag && this.is(entry & ID, bytes, from, to)) return entry & ID
    }
  }

  /** Whether `bytes[from, to)` are those of the token. */
  is(id: number, bytes: Uint8Array, from: number, to: number): boolean {
    const start = this.#offsets[id] as number
    if ((this.#offsets[id + 1] as number) - start !== to - from) return false
    for (let i = from, j = start; i < to; i++, j++) if (bytes[i] !== this.#bytes[j]) return false
    return true
  }

  /**
   * Symbol at `at` that merging starts from: a byte, or a character if tokens are made of them and it has a token.
   */
  symbolAt(bytes: Uint8Array, at: number): number {
    const lead = bytes[at] as number
    if (lead >= 0x80 && this.pairs !== null) {
      const width = widthOf(lead)
      const id = width === 1 ? -1 : this.joined(bytes, at, at + width)
      if (id >= 0) return (id << SYMBOL_BITS) | width
    }
    return ((this.byteIds[lead] as number) << SYMBOL_BITS) | 1
  }

  /** Whether a whole piece equal to this token always is this token. */
  isDirect(id: number): boolean {
    return this.#indirect[id] === 0
  }

  /** Id of the token that two neighbours form. -1: none. */
  joined(bytes: Uint8Array, from: number, to: number): number {
    // Every merging starts with pairs of bytes.
    if (to - from === 2) return this.#pairs[(bytes[from] as number) * 256 + (bytes[from + 1] as number)] as number
    return to - from > this.longest ? -1 : this.find(bytes, from, to, hashBytes(bytes, from, to))
  }

  /**
   * Order of the merge into `id`; lower is first. Infinity: it is no merge. The left half is token `left` of
   * `leftLength` bytes.
   */
  order(id: number, left: number, leftLength: number): number {
    if (this.#listed !== null) return this.#listed.order(id * 256 + leftLength)
    if (this.header.merges === 'all') return id * MAX_IDS + left
    return this.#left[id] === leftLength ? id : Infinity
  }

  /** Bytes of a token. Empty for added tokens. */
  bytesOf(id: number): Uint8Array {
    return this.#bytes.subarray(this.#offsets[id] as number, this.#offsets[id + 1] as number)
  }
}

const ID = MAX_IDS - 1
// The top bit stays clear, so that no entry looks empty.
const TAG = 0x7fffffff & ~ID

/** Merges without a rule, by their position in the list. */
class MergeList {
  readonly #keys: Uint32Array
  readonly #orders: Uint32Array
  readonly #mask: number

  constructor(file: Uint8Array, count: number) {
    let capacity = 1024
    while (capacity < count * 2) capacity *= 2
    this.#mask = capacity - 1
    this.#keys = new Uint32Array(capacity)
    this.#orders = new Uint32Array(capacity)
    const view = new DataView(file.buffer, file.byteOffset, count * 4)
    for (let order = 0; order < count; order++) {
      const key = view.getUint32(order * 4, true)
      const slot = this.#slot(key)
      // The first of two equal merges counts.
      if (this.#keys[slot] === 0) {
        this.#keys[slot] = key
        this.#orders[slot] = order
      }
    }
  }

  order(key: number): number {
    const slot = this.#slot(key)
    return this.#keys[slot] === 0 ? Infinity : (this.#orders[slot] as number)
  }

  #slot(key: number): number {
    let slot = (Math.imul(key, 0x9e3779b1) >>> 7) & this.#mask
    while (this.#keys[slot] !== 0 && this.#keys[slot] !== key) slot = (slot + 1) & this.#mask
    return slot
  }
}

function readScores(file: Uint8Array, words: number): Float64Array {
  const view = new DataView(file.buffer, file.byteOffset, words * 4)
  return Float64Array.from({ length: words / 2 }, (_, id) => view.getFloat64(id * 8, true))
}

function readHead(file: Uint8Array): { header: VocabularyHeader; size: number; merges: number; at: number } {
  if (file.length < HEAD_BYTES) throw notCompiled()
  const view = new DataView(file.buffer, file.byteOffset, HEAD_BYTES)
  if (view.getUint32(0, true) !== MAGIC) throw notCompiled()
  const at = HEAD_BYTES + view.getUint32(4, true)
  let text = ''
  for (let i = HEAD_BYTES; i < at; i += 4096) text += String.fromCharCode(...file.subarray(i, Math.min(i + 4096, at)))
  try {
    return {
      header: JSON.parse(text) as VocabularyHeader,
      size: view.getUint32(8, true),
      merges: view.getUint32(12, true),
      at,
    }
  } catch {
    throw new VocabularyError('the header of the compiled vocabulary is damaged: compile it again')
  }
}

const notCompiled = (): VocabularyError =>
  new VocabularyError(
    'not a compiled vocabulary of this version: make one with `firstlight vocab compile tokenizer.json -o NAME.vocab`',
  )
