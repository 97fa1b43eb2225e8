import { BACKSLASH, CLOSE_BRACE, COLON, OPEN_BRACE, QUOTE, stringEnd } from './json-bytes.ts'

/** Unit of weights: one piece takes at most about 0.1 us in V8's JSON.parse. */
const COST_UNIT = 64

/**
 * Additional weight of a name, unless the same names preceded it the last time: a new sequence of names creates a new
 * hidden class.
 */
const NEW_NAME = 9 * COST_UNIT

/** Additional weight of a short text or name with an escape, which must be unescaped before its lookup. */
const ESCAPED_COST = 5 * COST_UNIT

/** Longer names are always new, longer texts are not looked up. */
const LONG_BYTES = 66

/** Maximum weight of a byte, in pieces. */
const MAX_BYTE_WEIGHT = 6

/**
 * Weights by byte outside of texts: a number is its following comma and its digits; a fraction costs as much as three
 * or four integers.
 */
const WEIGHTS = new Uint16Array(256).fill(1)

WEIGHTS[OPEN_BRACE] = MAX_BYTE_WEIGHT * COST_UNIT

// Short texts are looked up among all names and texts.
WEIGHTS[QUOTE] = 3 * COST_UNIT

WEIGHTS[0x5b] = 2 * COST_UNIT

for (const sign of '.eE') WEIGHTS[sign.charCodeAt(0)] = 0.75 * COST_UNIT

WEIGHTS[0x2c] = COST_UNIT / 4

/** True if the document has more than `limit` pieces. Long texts cost nothing: they are not parsed. */
export function exceedsJsonComplexity(bytes: Uint8Array, limit: number): boolean {
  // Nearly every document ends here.
  return bytes.length * MAX_BYTE_WEIGHT > limit && piecesLeft(bytes, limit) < 0
}

/** `limit` minus the pieces of the document; negative as soon as there are more. */
export function piecesLeft(bytes: Uint8Array, limit: number): number {
  const names = new NameSequenceCache(bytes)
  const left = { weight: limit * COST_UNIT }
  for (let at = 0, text = 0, end = 0, named = -1; left.weight >= 0; at++) {
    at = plainEnd(bytes, at, left)
    if (at === bytes.length) break
    const byte = bytes[at]!
    left.weight -= WEIGHTS[byte]!
    if (byte === QUOTE) {
      text = at
      end = stringEnd(bytes, at)
      // A text without an end is invalid JSON, which the parser reports.
      if (end < 0) break
      if (hasEscape(bytes, text, end)) left.weight -= ESCAPED_COST
      at = end - 1
    } else if (byte === OPEN_BRACE) names.opened()
    else if (byte === CLOSE_BRACE) names.closed()
    else {
      // Two colons behind a name are invalid JSON too.
      if (text === named) break
      named = text
      if (names.isNew(text, end)) left.weight -= NEW_NAME
    }
  }
  return left.weight / COST_UNIT
}

/**
 * Weighs bytes outside of texts, names and mappings. Returns their end, or where the limit is exceeded. A separate
 * function, because V8 optimises it better.
 */
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

function hasEscape(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start > LONG_BYTES) return false
  for (let i = start; i < end; i++) if (bytes[i] === BACKSLASH) return true
  return false
}

/** Number of remembered names: more than real rows have, and too few to hide new rows in. */
const SLOTS = 256

/**
 * Names of a document by their predecessors in the mapping. Two names in one slot alternate, and both count as new
 * each time.
 */
class NameSequenceCache {
  readonly #bytes: Uint8Array
  /** Last position of the name. */
  readonly #at = new Uint32Array(SLOTS)
  /**
   * Identity of the name and of its predecessor. A new name is another identity, and so are its successors, wherever
   * they hash to.
   */
  readonly #own = new Uint32Array(SLOTS)
  readonly #before = new Uint32Array(SLOTS)
  /** The previous name: its identity and slot. */
  #last = 0
  #slot = SLOTS
  #count = 0
  /** Identities and slots for the enclosing mappings. */
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

  /** Returns true if the name in `[start, end)` has not followed these names before, and remembers it. */
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
