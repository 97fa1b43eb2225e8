/** Normalizers of tokenizer.json, as steps that are stored in a compiled vocabulary. */
import { utf8Of } from './utf8.ts'

/*
 * SentencePiece's table of replacements (`precompiled_charsmap`): a trie of UTF-8 keys as a double array, and the
 * replacements. Applied as in Hugging Face's `tokenizers`: to each character, and to each user-perceived character of
 * less than six bytes as a whole.
 */

/** Longer user-perceived characters are replaced character by character. */
const MOST_CLUSTER_BYTES = 5
/** Limit of the cache below. */
const MOST_KNOWN = 20_000
const odd = /[^\x20-\x7e]/g

/** Next character at or after `from` that is no printable ASCII. -1: none. */
function nextOdd(text: string, from: number): number {
  odd.lastIndex = from
  return odd.exec(text)?.index ?? -1
}

function isOdd(text: string, at: number): boolean {
  const unit = text.charCodeAt(at)
  return unit < 0x20 || unit > 0x7e
}

interface Known {
  /** Replacement. */
  readonly to: string
  readonly bytes: Uint8Array
  readonly kind: Kind
}

class Charsmap {
  readonly #units: Uint32Array
  readonly #replacements: Uint8Array
  readonly #known = new Map<number, Known>()
  /** The table replaces no printable ASCII. */
  readonly #keepsAscii: boolean

  /** Throws an Error if the table is damaged. */
  constructor(base64: string) {
    const file = fromBase64(base64)
    const view = new DataView(file.buffer, file.byteOffset, file.length)
    const size = file.length < 4 ? -1 : view.getUint32(0, true)
    if (size <= 0 || size % 4 !== 0 || size + 4 > file.length) throw new Error('the table of replacements is damaged')
    this.#units = Uint32Array.from({ length: size / 4 }, (_, i) => view.getUint32(4 + i * 4, true))
    this.#replacements = file.subarray(4 + size)
    this.#keepsAscii = Array.from({ length: 0x5f }, (_, i) => 0x20 + i).every(
      (code) => this.#character(code).to === String.fromCharCode(code),
    )
  }

  normalize(text: string): string {
    if (!this.#keepsAscii) return this.#byCluster(text)
    let out = ''
    let done = 0
    for (let at = nextOdd(text, 0); at >= 0; at = nextOdd(text, done)) {
      // A printable neighbour may be of the same user-perceived character; two in a row never are.
      const from = Math.max(done, at - 1)
      let to = at + 1
      while (to < text.length && (isOdd(text, to) || isOdd(text, to + 1))) to++
      to = Math.min(text.length, to + 1)
      out += text.slice(done, from) + this.#byCluster(text.slice(from, to))
      done = to
    }
    return out + text.slice(done)
  }

  #byCluster(text: string): string {
    let out = ''
    let cluster: Known[] = []
    let last: Kind = 'control'
    for (const char of text) {
      const known = this.#character(wellFormed(char.codePointAt(0) as number))
      if (cluster.length > 0 && !isOneCluster(last, known.kind)) {
        out += this.#replaced(cluster)
        cluster = []
      }
      cluster.push(known)
      last = known.kind === 'joiner' && cluster[0]?.kind !== 'picture' ? 'extend' : known.kind
    }
    return cluster.length > 0 ? out + this.#replaced(cluster) : out
  }

  #replaced(cluster: readonly Known[]): string {
    if (cluster.length === 1) return (cluster[0] as Known).to
    const length = cluster.reduce((sum, { bytes }) => sum + bytes.length, 0)
    const whole = length <= MOST_CLUSTER_BYTES ? this.#replacement(cluster.flatMap(({ bytes }) => [...bytes])) : null
    return whole ?? cluster.map(({ to }) => to).join('')
  }

  #character(code: number): Known {
    const known = this.#known.get(code)
    if (known !== undefined) return known
    const char = String.fromCodePoint(code)
    const bytes = utf8Of(char)
    const made = { to: this.#replacement(bytes) ?? char, bytes, kind: kindOf(char) }
    if (this.#known.size >= MOST_KNOWN) this.#known.clear()
    this.#known.set(code, made)
    return made
  }

  /** Replacement of the shortest key that `bytes` starts with. null: there is none. */
  #replacement(bytes: ArrayLike<number>): string | null {
    const units = this.#units
    let at = offsetOf(units[0] as number)
    for (let i = 0; i < bytes.length; i++) {
      const byte = bytes[i] as number
      at ^= byte
      const unit = units[at]
      if (byte === 0 || unit === undefined || (unit & 0x800000ff) >>> 0 !== byte) return null
      at ^= offsetOf(unit)
      if ((unit & 0x100) !== 0) return this.#text((units[at] ?? 0) & 0x7fffffff)
    }
    return null
  }

  #text(from: number): string {
    const bytes = this.#replacements
    let escaped = ''
    for (let i = from; i < bytes.length && bytes[i] !== 0; i++) {
      escaped += `%${(bytes[i] as number).toString(16).padStart(2, '0')}`
    }
    return decodeURIComponent(escaped)
  }
}

const offsetOf = (unit: number): number => (unit >>> 10) << ((unit & 0x200) >>> 6)
const wellFormed = (code: number): number => (code >= 0xd800 && code <= 0xdfff ? 0xfffd : code)

/* Boundaries of user-perceived characters (Unicode, UAX 29). */

type Kind = 'cr' | 'lf' | 'control' | 'prepend' | 'extend' | 'joiner' | 'picture' | 'other'

const extend = /[\p{Grapheme_Extend}\p{Emoji_Modifier}\p{Mc}\u0e33\u0eb3]/u
/** Marks with an own width that the standard excludes. */
const apart = new RegExp(
  String.raw`[\u102b\u102c\u1038\u1062-\u1064\u1067-\u106d\u1083\u1087-\u108c\u108f\u109a-\u109c\u1a61\u1a63` +
    String.raw`\u1a64\uaa7b\uaa7d\u{11720}\u{11721}]`,
  'u',
)
const prepend = new RegExp(
  String.raw`[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\u{110bd}\u{110cd}\u{111c2}\u{111c3}\u{113d1}` +
    String.raw`\u{1193f}\u{11941}\u{11a3a}\u{11a84}-\u{11a89}\u{11d46}\u{11f02}]`,
  'u',
)
const picture = /\p{Extended_Pictographic}/u
const control = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u2065\ufff0-\ufff8\u{e0000}-\u{e0fff}]/u

function kindOf(char: string): Kind {
  if (char === '\r') return 'cr'
  if (char === '\n') return 'lf'
  if (char === '\u200d') return 'joiner'
  if (picture.test(char)) return 'picture'
  if (prepend.test(char)) return 'prepend'
  if (extend.test(char) && !apart.test(char)) return 'extend'
  return control.test(char) ? 'control' : 'other'
}

/**
 * Whether no boundary lies between two neighbours. Rules that only join characters to more than five bytes (Hangul,
 * flags, Indic conjuncts) are left out: those are replaced one by one anyway.
 */
function isOneCluster(first: Kind, second: Kind): boolean {
  if (first === 'cr') return second === 'lf'
  if (first === 'lf' || first === 'control') return false
  if (second === 'extend' || second === 'joiner') return true
  if (first === 'joiner') return second === 'picture'
  return first === 'prepend' && (second === 'other' || second === 'picture' || second === 'prepend')
}

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

function fromBase64(text: string): Uint8Array {
  const digits = text.replace(/=+$/, '')
  const bytes = new Uint8Array(Math.floor((digits.length * 3) / 4))
  const values = new Map([...DIGITS].map((digit, value) => [digit, value]))
  let bits = 0
  let held = 0
  let at = 0
  for (const digit of digits) {
    held = ((held << 6) | (values.get(digit) ?? 0)) & 0xffffff
    bits += 6
    if (bits < 8) continue
    bits -= 8
    bytes[at++] = (held >>> bits) & 0xff
  }
  return bytes
}

export type NormalStep =
  | { readonly kind: 'nfc' | 'nfkc' }
  | { readonly kind: 'prepend'; readonly text: string }
  | { readonly kind: 'replace'; readonly from: string; readonly to: string }
  /** Two or more blanks become `to`. */
  | { readonly kind: 'blanks'; readonly to: string }
  | { readonly kind: 'strip'; readonly left: boolean; readonly right: boolean }
  /** SentencePiece's table of replacements, in base64. */
  | { readonly kind: 'charsmap'; readonly map: string }

export type Normalizer = (text: string) => string

/** Throws an Error for a damaged table of replacements. */
export function normalizerOf(steps: readonly NormalStep[]): Normalizer {
  const each = steps.map(stepOf)
  return (text) => each.reduce((changed, step) => step(changed), text)
}

function stepOf(step: NormalStep): Normalizer {
  switch (step.kind) {
    case 'nfc':
      return (text) => composed(text, 'NFC')
    case 'nfkc':
      return (text) => composed(text, 'NFKC')
    case 'prepend':
      return (text) => (text === '' ? '' : step.text + text)
    case 'replace':
      return (text) => text.replaceAll(step.from, () => step.to)
    case 'blanks':
      return (text) => text.replace(/ {2,}/g, () => step.to)
    case 'strip':
      return (text) => stripped(text, step.left, step.right)
    case 'charsmap': {
      const map = new Charsmap(step.map)
      return (text) => map.normalize(text)
    }
  }
}

const space = /\p{White_Space}/u

/** A search for white space at the end takes quadratic time as a regular expression. */
function stripped(text: string, left: boolean, right: boolean): string {
  let from = 0
  let to = text.length
  if (left) while (from < to && space.test(text.charAt(from))) from++
  if (right) while (to > from && space.test(text.charAt(to - 1))) to--
  return text.slice(from, to)
}

const ascii = /^[\0-\x7f]*$/
const marks = /\p{M}{32}/uy

/**
 * Normalizes to NFC or NFKC. Throws at 127 combining marks in a row, and may from 32 on, because ordering them takes
 * quadratic time, up to hours.
 */
function composed(text: string, form: 'NFC' | 'NFKC'): string {
  if (ascii.test(text)) return text
  // A longer run contains one of these positions with enough marks after it; two units form at most one mark.
  for (let at = 0; at < text.length; at += 64) {
    marks.lastIndex = at
    if (marks.test(text)) throw new Error('more combining marks in a row than any language has')
  }
  return text.normalize(form)
}
