/**
 * Finds the members of a JSON object in its bytes, so that one can be changed without the others. The bytes are valid
 * JSON (JSON.parse accepted them); the scanner returns null if it is unsure.
 */
import { CLOSE_BRACE, COLON, OPEN_BRACE, QUOTE, stringEnd } from '../core/json-bytes.ts'

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
const MAX_KEY_BYTES = 770

const UTF8 = new TextDecoder()

const isBlank = (byte: number | undefined): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/** First offset from `at` that is not whitespace. Skips a byte order mark at 0. */
export function skipBlank(bytes: Uint8Array, at: number): number {
  let i = at
  if (i === 0 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) i = 3
  while (isBlank(bytes[i])) i++
  return i
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
  if (end - at > MAX_KEY_BYTES) return ''
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
