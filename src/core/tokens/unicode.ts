/**
 * Character classes that pre-tokenizer expressions use, as bits. The table is part of the vocabulary, because ids must
 * not depend on the runtime's Unicode version.
 */

export const LETTER = 1
export const NUMBER = 2
/** Unicode White_Space: `\s` of Rust and Oniguruma. JavaScript's `\s` includes U+FEFF and lacks U+0085. */
export const SPACE = 4
/** CR and LF. */
export const NEWLINE = 8
/** Lu, Lt, Lm, Lo or M: may start a word of the o200k pattern. */
export const BEGIN = 16
/** Ll, Lm, Lo or M: may end one. */
export const END = 32

/** Classes of all characters, as stored in a compiled vocabulary. */
export interface CharacterClasses {
  /** Bits of each class. The letter `A` in the runs is the first. */
  readonly bits: readonly number[]
  /**
   * Runs of characters of one class from U+0000 on: a capital letter for the class, then the length in base 36 unless
   * it is 1.
   */
  readonly runs: string
}

/** UTF-8 text with the class bits of every code point. */
export interface ClassedText {
  readonly bytes: Uint8Array
  readonly classes: Uint8Array
}

/** Returns the bits by code point: 1.1 MB. */
export function readClasses({ bits, runs }: CharacterClasses): Uint8Array {
  const table = new Uint8Array(0x110000)
  let code = 0
  for (let i = 0; i < runs.length;) {
    const own = bits[runs.charCodeAt(i++) - 0x41] as number
    let length = 0
    for (let digit = base36(runs, i); digit >= 0; digit = base36(runs, ++i)) length = length * 36 + digit
    const end = code + Math.max(length, 1)
    if (own !== 0) table.fill(own, code, end)
    code = end
  }
  return table
}

/** The digit at `i` of the runs. -1: no digit. */
function base36(runs: string, i: number): number {
  const unit = runs.charCodeAt(i)
  if (unit >= 0x30 && unit <= 0x39) return unit - 0x30
  return unit >= 0x61 && unit <= 0x7a ? unit - 0x57 : -1
}

/**
 * Class bits of the UTF-8 character that starts at `at`, and from bit 8 on its width in bytes. The bytes must be valid
 * UTF-8.
 */
export function charAt({ bytes, classes }: ClassedText, at: number): number {
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
  return width | (classes[code] as number)
}

/** End of the run of characters with any of `bits`, from `at`. */
export function runOf(bits: number, text: ClassedText, at: number, end: number): number {
  const { bytes, classes } = text
  let i = at
  while (i < end) {
    // Most text is ASCII, so this path is the most frequent.
    const lead = bytes[i] as number
    if (lead < 0x80) {
      if (((classes[lead] as number) & bits) === 0) break
      i++
      continue
    }
    const char = charAt(text, i)
    if ((char & bits) === 0) break
    i += char >> 8
  }
  return i
}

/** End of the run of characters with none of `bits`, from `at`. */
export function runWithout(bits: number, text: ClassedText, at: number, end: number): number {
  let i = at
  while (i < end) {
    const char = charAt(text, i)
    if ((char & bits) !== 0) break
    i += char >> 8
  }
  return i
}
