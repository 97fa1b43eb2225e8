/**
 * What a pre-tokenizer's regex can ask about a character, as bits. The table is shipped, not taken from the runtime:
 * ids must not depend on its Unicode version.
 */
import { classBits, classRuns } from './unicode-table.ts'

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

const classes = readRuns()

function readRuns(): Uint8Array {
  const table = new Uint8Array(0x110000)
  let code = 0
  for (let i = 0; i < classRuns.length; ) {
    const bits = classBits[classRuns.charCodeAt(i++) - 0x41] as number
    let length = 0
    for (let digit = base36(i); digit >= 0; digit = base36(++i)) length = length * 36 + digit
    const end = code + Math.max(length, 1)
    if (bits !== 0) table.fill(bits, code, end)
    code = end
  }
  return table
}

/** The digit at `i` of the runs, or -1. */
function base36(i: number): number {
  const unit = classRuns.charCodeAt(i)
  if (unit >= 0x30 && unit <= 0x39) return unit - 0x30
  return unit >= 0x61 && unit <= 0x7a ? unit - 0x57 : -1
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
  return width | (classes[code] as number)
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
