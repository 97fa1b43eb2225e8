/** Bytes of JSON punctuation, and the end of a string in JSON bytes. */

/** Bytes to scan before a native search, because most strings are short, and code has many escaped quotes. */
const WALK_BYTES = 32

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

export const QUOTE = 0x22

export const COLON = 0x3a

export const BACKSLASH = 0x5c

export const OPEN_BRACE = 0x7b

export const CLOSE_BRACE = 0x7d
