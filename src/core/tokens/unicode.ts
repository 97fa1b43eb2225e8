/**
 * What a pre-tokenizer's regex can ask about a character, as bits. Taken from the runtime's own Unicode tables, one
 * character at a time when first met: no table to ship, nothing to build at start.
 */

export const LETTER = 1
export const NUMBER = 2
/** Unicode White_Space: `\s` of Rust and Oniguruma. JavaScript's own `\s` has U+FEFF and lacks U+0085. */
export const SPACE = 4
/** CR and LF. */
export const NEWLINE = 8
/** Lu, Lt, Lm, Lo or M: what may begin a word of the o200k pattern. */
export const BEGIN = 16
/** Ll, Lm, Lo or M: what may end one. */
export const END = 32
const KNOWN = 128

const tests: readonly (readonly [number, RegExp])[] = [
  [LETTER, /\p{L}/u],
  [NUMBER, /\p{N}/u],
  [SPACE, /\p{White_Space}/u],
  [NEWLINE, /[\r\n]/],
  [BEGIN, /[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]/u],
  [END, /[\p{Ll}\p{Lm}\p{Lo}\p{M}]/u],
]

const classes = new Uint8Array(0x110000)
for (let code = 0; code < 0x80; code++) classify(code)

function classify(code: number): number {
  const text = String.fromCodePoint(code)
  let bits = KNOWN
  for (const [bit, test] of tests) if (test.test(text)) bits |= bit
  classes[code] = bits
  return bits
}

/** Class bits of the UTF-8 character that begins at `at`, and its width in bytes from bit 8 on. The bytes must be valid UTF-8. */
export function charAt(bytes: Uint8Array, at: number): number {
  const lead = bytes[at] as number
  if (lead < 0x80) return (classes[lead] as number) | 0x100
  let code: number
  let width: number
  if (lead < 0xe0) {
    code = ((lead & 0x1f) << 6) | ((bytes[at + 1] as number) & 0x3f)
    width = 0x200
  } else if (lead < 0xf0) {
    code = ((lead & 0x0f) << 12) | (((bytes[at + 1] as number) & 0x3f) << 6) | ((bytes[at + 2] as number) & 0x3f)
    width = 0x300
  } else {
    const high = ((lead & 0x07) << 18) | (((bytes[at + 1] as number) & 0x3f) << 12)
    code = high | (((bytes[at + 2] as number) & 0x3f) << 6) | ((bytes[at + 3] as number) & 0x3f)
    width = 0x400
  }
  const known = classes[code] as number
  return width | (known === 0 ? classify(code) : known)
}

/** End of the run of characters with any of `bits`, from `at`. */
export function runOf(bits: number, bytes: Uint8Array, at: number, end: number): number {
  let i = at
  while (i < end) {
    const char = charAt(bytes, i)
    if ((char & bits) === 0) break
    i += char >> 8
  }
  return i
}

/** End of the run of characters with none of `bits`, from `at`. */
export function runWithout(bits: number, bytes: Uint8Array, at: number, end: number): number {
  let i = at
  while (i < end) {
    const char = charAt(bytes, i)
    if ((char & bits) !== 0) break
    i += char >> 8
  }
  return i
}
