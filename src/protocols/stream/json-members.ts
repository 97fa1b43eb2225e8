/**
 * Reads members of a JSON document as its bytes pass, without parsing the rest. Only members at the wanted place count:
 * an engine echoes the request, so a name deeper in the document may be the client's.
 */
import { concatBytes } from '../../core/bytes.ts'

const QUOTE = 34
const COMMA = 44
const COLON = 58
const BACKSLASH = 92
const OPEN_LIST = 91
const CLOSE_LIST = 93
const OPEN = 123
const CLOSE = 125
/** Limit of a member's value, bytes. */
const VALUE_BYTES = 8192
/** Longer names are none of the wanted ones. */
const NAME_BYTES = 64

/** Bytes that change the state outside strings. */
const STRUCTURAL = new Uint8Array(256)
for (const byte of [QUOTE, COMMA, COLON, OPEN, CLOSE, OPEN_LIST, CLOSE_LIST]) STRUCTURAL[byte] = 1
/** Bytes that change the depth or begin a string. */
const NESTING = new Uint8Array(256)
for (const byte of [QUOTE, OPEN, CLOSE, OPEN_LIST, CLOSE_LIST]) NESTING[byte] = 1

const utf8 = new TextDecoder()

export class JsonMembers {
  readonly #keys: readonly string[]
  readonly #within: string | null
  /** Names that are looked for, `within` among them. */
  readonly #wanted: readonly string[]
  readonly #found = new Map<string, string>()
  #depth = 0
  #inString = false
  #escaped = false
  /** The next string is a member's name. */
  #expectsName = false
  /** The current string is the name of a member that may be wanted. */
  #inName = false
  #name: string | null = null
  /** The object at depth 2 is the member `within`. */
  #isInside = false
  /** Pieces of the current name or value. null: nothing is kept. */
  #kept: Uint8Array[] | null = null
  #keptBytes = 0
  /** Depth of the object whose member's value is kept; 0: none. */
  #valueAt = 0

  /**
   * @param keys names in ASCII
   * @param within name of the top-level member that has the wanted ones; null: they are at the top level
   */
  constructor(keys: readonly string[], within: string | null = null) {
    this.#keys = keys
    this.#within = within
    this.#wanted = within === null ? keys : [...keys, within]
  }

  /** Values by name, as JSON texts. */
  get found(): ReadonlyMap<string, string> {
    return this.#found
  }

  take(chunk: Uint8Array, from: number, to: number): void {
    let keptFrom = this.#kept === null ? -1 : from
    let at = from
    while (at < to) {
      if (this.#inString) {
        at = this.#string(chunk, at, to)
        if (this.#inString) break
        if (this.#inName) {
          this.#nameEnds(chunk, keptFrom, at - 1)
          keptFrom = -1
        }
        continue
      }
      const table = this.#valueAt === 0 && this.#watches ? STRUCTURAL : NESTING
      while (at < to && table[chunk[at]!] === 0 && !(this.#valueAt > 0 && chunk[at] === COMMA)) at++
      if (at >= to) break
      const byte = chunk[at]!
      if (this.#valueAt > 0 && this.#depth === this.#valueAt && (byte === COMMA || byte === CLOSE)) {
        this.#valueEnds(chunk, keptFrom, at)
        keptFrom = -1
      }
      const keeps = this.#kept !== null
      this.#structure(byte)
      at++
      if (!keeps && this.#kept !== null) keptFrom = at
    }
    if (this.#kept !== null && keptFrom >= 0) this.#keep(chunk, keptFrom, to)
  }

  /** The current object may have wanted members. */
  get #watches(): boolean {
    return this.#depth === 1 || (this.#depth === 2 && this.#isInside)
  }

  #structure(byte: number): void {
    switch (byte) {
      case QUOTE:
        this.#inString = true
        this.#inName = this.#expectsName && this.#watches
        if (this.#inName) this.#begin()
        return
      case OPEN:
      case OPEN_LIST:
        this.#depth++
        if (this.#depth === 2) this.#isInside = byte === OPEN && this.#within !== null && this.#name === this.#within
        this.#expectsName = byte === OPEN && this.#valueAt === 0
        return
      case CLOSE:
      case CLOSE_LIST:
        this.#depth--
        this.#expectsName = false
        if (this.#depth < 2) this.#isInside = false
        return
      case COMMA:
        this.#expectsName = this.#valueAt === 0
        return
      default:
        this.#colon()
    }
  }

  #colon(): void {
    this.#expectsName = false
    const isWanted =
      this.#depth === (this.#within === null ? 1 : 2) && this.#name !== null && this.#keys.includes(this.#name)
    if (!isWanted) return
    this.#valueAt = this.#depth
    this.#begin()
  }

  #begin(): void {
    this.#kept = []
    this.#keptBytes = 0
  }

  #nameEnds(chunk: Uint8Array, from: number, to: number): void {
    if (this.#keptBytes === 0 && from >= 0) this.#name = this.#wantedAt(chunk, from, to)
    else {
      if (from >= 0) this.#keep(chunk, from, to)
      this.#name = this.#kept === null || this.#keptBytes > NAME_BYTES ? null : this.#text()
    }
    this.#kept = null
    this.#inName = false
  }

  /** Wanted name in the range; null: it is another one. */
  #wantedAt(chunk: Uint8Array, from: number, to: number): string | null {
    for (const name of this.#wanted) if (isAt(chunk, from, to, name)) return name
    return null
  }

  #valueEnds(chunk: Uint8Array, from: number, to: number): void {
    if (from >= 0) this.#keep(chunk, from, to)
    // An oversized value of a later duplicate must not leave the earlier one.
    if (this.#kept === null) this.#found.delete(this.#name!)
    else this.#found.set(this.#name!, this.#text().trim())
    this.#kept = null
    this.#valueAt = 0
  }

  #text(): string {
    return utf8.decode(concatBytes(this.#kept!, this.#keptBytes))
  }

  #keep(chunk: Uint8Array, from: number, to: number): void {
    if (this.#kept === null) return
    this.#keptBytes += to - from
    if (this.#keptBytes > VALUE_BYTES) this.#kept = null
    // A copy: the reader may reuse the memory (and `slice` of Node's Buffer would be a view).
    else this.#kept.push(new Uint8Array(chunk.subarray(from, to)))
  }

  /** Index after the quote that ends the string; `to`: it goes on. */
  #string(chunk: Uint8Array, from: number, to: number): number {
    let at = from
    if (this.#escaped) {
      this.#escaped = false
      at++
    }
    while (at < to) {
      const quote = chunk.indexOf(QUOTE, at)
      const end = quote < 0 || quote > to ? to : quote
      let slashes = 0
      while (end - 1 - slashes >= at && chunk[end - 1 - slashes] === BACKSLASH) slashes++
      const isEscaped = slashes % 2 === 1
      if (end === to) {
        this.#escaped = isEscaped
        return to
      }
      if (!isEscaped) {
        this.#inString = false
        return end + 1
      }
      at = end + 1
    }
    return to
  }
}

/** Compares bytes with a name: decoding each name of a document costs more than reading the document. */
function isAt(chunk: Uint8Array, from: number, to: number, name: string): boolean {
  if (to - from !== name.length) return false
  for (let at = 0; at < name.length; at++) if (chunk[from + at] !== name.charCodeAt(at)) return false
  return true
}
