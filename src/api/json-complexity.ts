/** Documents that it would take so long to parse that everybody else had to wait. */
import { stringEnd } from './json-scan.ts'

const QUOTE = 0x22
const COLON = 0x3a
const BACKSLASH = 0x5c
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

/** A piece is about 0.1 us of V8's JSON.parse, at its worst; this is the unit that weights are in. */
const COST_UNIT = 64
/** What a name takes besides, unless the same names came before it the last time: a row of names that is new is a new kind of object. */
const NEW_NAME = 9 * COST_UNIT
/** And what a short text or name with an escape does: it is put together before it can be looked up. */
const ESCAPED_COST = 5 * COST_UNIT
/** Longer names are new each time, longer texts are not looked up. */
const LONG_BYTES = 66
/** The most that a byte weighs, in pieces. */
const MOST = 6
/** By byte, outside of texts: a number is the comma behind it, and its digits; a fraction costs as much as three or four whole ones. */
const WEIGHTS = new Uint16Array(256).fill(1)
WEIGHTS[OPEN_BRACE] = MOST * COST_UNIT
// Short ones are looked up among all names and texts there are.
WEIGHTS[QUOTE] = 3 * COST_UNIT
WEIGHTS[0x5b] = 2 * COST_UNIT
for (const sign of '.eE') WEIGHTS[sign.charCodeAt(0)] = 0.75 * COST_UNIT
WEIGHTS[0x2c] = COST_UNIT / 4

/** Would it take longer to parse the JSON document than `limit` pieces? Long texts are free: they are not read. */
export function exceedsJsonComplexity(bytes: Uint8Array, limit: number): boolean {
  // Nearly every document is done here.
  return bytes.length * MOST > limit && piecesLeft(bytes, limit) < 0
}

/** `limit` less the pieces of a JSON document; less than 0 as soon as there are more. */
export function piecesLeft(bytes: Uint8Array, limit: number): number {
  const names = new KeyPathCache(bytes)
  const left = { weight: limit * COST_UNIT }
  for (let at = 0, text = 0, end = 0, named = -1; left.weight >= 0; at++) {
    at = plainEnd(bytes, at, left)
    if (at === bytes.length) break
    const byte = bytes[at]!
    left.weight -= WEIGHTS[byte]!
    if (byte === QUOTE) {
      text = at
      end = stringEnd(bytes, at)
      // One without an end is no JSON: its parser says so.
      if (end < 0) break
      if (isCrooked(bytes, text, end)) left.weight -= ESCAPED_COST
      at = end - 1
    } else if (byte === OPEN_BRACE) names.opened()
    else if (byte === CLOSE_BRACE) names.closed()
    else {
      // Nor is one with two colons behind a name, which is read once: each weighs as little as a space.
      if (text === named) break
      named = text
      if (names.isNew(text, end)) left.weight -= NEW_NAME
    }
  }
  return left.weight / COST_UNIT
}

/** Weighs what is neither text nor name nor mapping; where that ends, or has too much of it. On its own, or V8 makes slow code of all. */
function plainEnd(bytes: Uint8Array, at: number, left: { weight: number }): number {
  const size = bytes.length
  let { weight } = left
  let end = at
  for (; end < size && weight >= 0; end++) {
    const byte = bytes[end]!
    if (byte === QUOTE || byte === COLON || byte === OPEN_BRACE || byte === CLOSE_BRACE) break
    weight -= WEIGHTS[byte]!
  }
  left.weight = weight
  return end
}

function isCrooked(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start > LONG_BYTES) return false
  for (let i = start; i < end; i++) if (bytes[i] === BACKSLASH) return true
  return false
}

/** How many names are remembered: more than requests have in rows, too few to hide new rows of a few names in. */
const SLOTS = 256

/** The names of a document, each behind those before it in its mapping. Two in one slot take turns, and are new each time. */
class KeyPathCache {
  readonly #bytes: Uint8Array
  /** Where the name stood last. */
  readonly #at = new Uint32Array(SLOTS)
  /** Who it is, and who is before it: a name that is new is another one, and so is whoever comes behind it, wherever the hash puts them. */
  readonly #own = new Uint32Array(SLOTS)
  readonly #before = new Uint32Array(SLOTS)
  /** The name before the next: who it is, and its slot. */
  #last = 0
  #slot = SLOTS
  #count = 0
  /** The same of the mappings around. */
  readonly #around: number[] = []

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  opened(): void {
    this.#around.push(this.#last, this.#slot)
    this.#last = 0
    this.#slot = SLOTS
  }

  closed(): void {
    this.#slot = this.#around.pop() ?? SLOTS
    this.#last = this.#around.pop() ?? 0
  }

  /** Has the name in `[start, end)` not been seen behind the names before it? Takes it in. */
  isNew(start: number, end: number): boolean {
    if (end - start > LONG_BYTES) {
      this.#last = ++this.#count
      return true
    }
    const bytes = this.#bytes
    const before = this.#last
    let hash = this.#slot
    for (let i = start; i < end; i++) hash = Math.imul(hash ^ bytes[i]!, 0x9e3779b1)
    const slot = (hash ^ (hash >>> 15)) & (SLOTS - 1)
    const isNew = this.#before[slot] !== before || !same(bytes, this.#at[slot]!, start, end)
    if (isNew) {
      this.#own[slot] = ++this.#count
      this.#before[slot] = before
    }
    this.#at[slot] = start
    this.#last = this.#own[slot]!
    this.#slot = slot
    return isNew
  }
}

function same(bytes: Uint8Array, a: number, b: number, end: number): boolean {
  for (let i = b; i < end; i++) if (bytes[a + i - b] !== bytes[i]) return false
  return true
}
