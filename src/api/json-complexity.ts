/**
 * Finds the members of a JSON object in its bytes, so that one can be changed without the others. The bytes are valid
 * JSON (JSON.parse accepted them); the scanner returns null if it is unsure.
 */

/** One `"key": value` as byte offsets; ends are exclusive and include quotes. */
export interface Member {
  /** Decoded name. '' if longer than any name that is searched. */
  readonly key: string
  readonly keyAt: number
  readonly valueAt: number
  readonly valueEnd: number
}

const COMMA = 0x2c
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

/** A name of 128 letters fits even if every letter is escaped as \\uXXXX: the longest `split.response_field`. */
const KEY_BYTES_MAX = 770

/** Bytes to scan before a native search, because most strings are short, and code has many escaped quotes. */
const WALK_BYTES = 32

const UTF8 = new TextDecoder()

const isBlank = (byte: number | undefined): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/** First offset from `at` that is not whitespace. Skips a byte order mark at 0. */
export function skipBlank(bytes: Uint8Array, at: number): number {
  let i = at
  if (i === 0 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) i = 3
  while (isBlank(bytes[i])) i++
  return i
}

/**
 * Offset behind the string that starts at `at`; -1: it has no end. Native search makes long texts without escapes
 * cheap.
 */
export function stringEnd(bytes: Uint8Array, at: number): number {
  const size = bytes.length
  for (let from = at + 1; ;) {
    const stop = Math.min(from + WALK_BYTES, size)
    while (from < stop) {
      const byte = bytes[from]
      if (byte === QUOTE) return from + 1
      from += byte === BACKSLASH ? 2 : 1
    }
    const quote = bytes.indexOf(QUOTE, from)
    if (quote < 0) return -1
    let slashes = 0
    while (quote - 1 - slashes >= from && bytes[quote - 1 - slashes] === BACKSLASH) slashes++
    from = quote + 1
    if (slashes % 2 === 0) return from
  }
}

/** Offset behind the object or array that starts at `at`; -1: it has no end. Counts depth instead of recursion. */
function nestEnd(bytes: Uint8Array, at: number): number {
  let depth = 0
  for (let i = at; i < bytes.length;) {
    const byte = bytes[i]
    if (byte === QUOTE) {
      i = stringEnd(bytes, i)
      if (i < 0) return -1
      continue
    }
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      depth--
      if (depth === 0) return i + 1
    }
    i++
  }
  return -1
}

function valueEnd(bytes: Uint8Array, at: number): number {
  const first = bytes[at]
  if (first === QUOTE) return stringEnd(bytes, at)
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return nestEnd(bytes, at)
  let i = at
  while (i < bytes.length && !isBlank(bytes[i]) && bytes[i] !== COMMA && bytes[i] !== CLOSE_BRACE) i++
  return i === at ? -1 : i
}

function decodeKey(bytes: Uint8Array, at: number, end: number): string | null {
  if (end - at > KEY_BYTES_MAX) return ''
  try {
    return JSON.parse(UTF8.decode(bytes.subarray(at, end))) as string
  } catch {
    return null
  }
}

/**
 * Lists the members of the object that starts at `at`, in order, with duplicates; null if the bytes are unexpected.
 * Stops behind the first member that is `enough`.
 */
export function scanObjectMembers(
  bytes: Uint8Array,
  at: number,
  enough?: (member: Member) => boolean,
): Member[] | null {
  if (bytes[at] !== OPEN_BRACE) return null
  const found: Member[] = []
  let i = skipBlank(bytes, at + 1)
  if (bytes[i] === CLOSE_BRACE) return found
  for (;;) {
    if (bytes[i] !== QUOTE) return null
    const keyAt = i
    const keyEnd = stringEnd(bytes, keyAt)
    if (keyEnd < 0) return null
    const key = decodeKey(bytes, keyAt, keyEnd)
    i = skipBlank(bytes, keyEnd)
    if (key === null || bytes[i] !== COLON) return null
    const valueAt = skipBlank(bytes, i + 1)
    const end = valueEnd(bytes, valueAt)
    if (end < 0) return null
    const member = { key, keyAt, valueAt, valueEnd: end }
    found.push(member)
    if (enough?.(member) === true) return found
    i = skipBlank(bytes, end)
    if (bytes[i] === CLOSE_BRACE) return found
    if (bytes[i] !== COMMA) return null
    i = skipBlank(bytes, i + 1)
  }
}

const QUOTE = 0x22
const COLON = 0x3a
const BACKSLASH = 0x5c
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

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
const MOST = 6
/**
 * Weights by byte outside of texts: a number is its following comma and its digits; a fraction costs as much as three
 * or four integers.
 */
const WEIGHTS = new Uint16Array(256).fill(1)
WEIGHTS[OPEN_BRACE] = MOST * COST_UNIT
// Short texts are looked up among all names and texts.
WEIGHTS[QUOTE] = 3 * COST_UNIT
WEIGHTS[0x5b] = 2 * COST_UNIT
for (const sign of '.eE') WEIGHTS[sign.charCodeAt(0)] = 0.75 * COST_UNIT
WEIGHTS[0x2c] = COST_UNIT / 4

/** True if the document has more than `limit` pieces. Long texts cost nothing: they are not parsed. */
export function exceedsJsonComplexity(bytes: Uint8Array, limit: number): boolean {
  // Nearly every document ends here.
  return bytes.length * MOST > limit && piecesLeft(bytes, limit) < 0
}

/** `limit` minus the pieces of the document; negative as soon as there are more. */
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
      // A text without an end is invalid JSON, which the parser reports.
      if (end < 0) break
      if (isCrooked(bytes, text, end)) left.weight -= ESCAPED_COST
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

function isCrooked(bytes: Uint8Array, start: number, end: number): boolean {
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
class KeyPathCache {
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
  /** The same for the enclosing mappings. */
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
