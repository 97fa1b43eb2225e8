/**
 * SentencePiece's table of replacements (`precompiled_charsmap`): a trie of UTF-8 keys as a double array, and the
 * replacements. Applied as in Hugging Face's `tokenizers`: to each character, and to each user-perceived character of
 * less than six bytes as a whole.
 */
import { type GraphemeKind, graphemeKind, isOneGrapheme } from './graphemes.ts'
import { utf8Of } from './utf8.ts'

/** Longer user-perceived characters are replaced character by character. */
const MAX_GRAPHEME_BYTES = 5

/** Limit of the cache below. */
const MAX_CACHED = 20_000

const nonPrintable = /[^\x20-\x7e]/g

/** Next character at or after `from` that is no printable ASCII. -1: none. */
function nextNonPrintable(text: string, from: number): number {
  nonPrintable.lastIndex = from
  return nonPrintable.exec(text)?.index ?? -1
}

function isNonPrintable(text: string, at: number): boolean {
  const unit = text.charCodeAt(at)
  return unit < 0x20 || unit > 0x7e
}

interface CharacterEntry {
  /** Replacement. */
  readonly to: string
  readonly bytes: Uint8Array
  readonly kind: GraphemeKind
}

export class Charsmap {
  readonly #units: Uint32Array
  readonly #replacements: Uint8Array
  readonly #cache = new Map<number, CharacterEntry>()
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
    if (!this.#keepsAscii) return this.#byGrapheme(text)
    let out = ''
    let normalizedTo = 0
    for (let at = nextNonPrintable(text, 0); at >= 0; at = nextNonPrintable(text, normalizedTo)) {
      // A printable neighbour may be of the same user-perceived character; two in a row never are.
      const from = Math.max(normalizedTo, at - 1)
      let to = at + 1
      while (to < text.length && (isNonPrintable(text, to) || isNonPrintable(text, to + 1))) to++
      to = Math.min(text.length, to + 1)
      out += text.slice(normalizedTo, from) + this.#byGrapheme(text.slice(from, to))
      normalizedTo = to
    }
    return out + text.slice(normalizedTo)
  }

  #byGrapheme(text: string): string {
    let out = ''
    let cluster: CharacterEntry[] = []
    let last: GraphemeKind = 'control'
    for (const char of text) {
      const known = this.#character(wellFormed(char.codePointAt(0) as number))
      if (cluster.length > 0 && !isOneGrapheme(last, known.kind)) {
        out += this.#replaced(cluster)
        cluster = []
      }
      cluster.push(known)
      last = known.kind === 'joiner' && cluster[0]?.kind !== 'picture' ? 'extend' : known.kind
    }
    return cluster.length > 0 ? out + this.#replaced(cluster) : out
  }

  #replaced(cluster: readonly CharacterEntry[]): string {
    if (cluster.length === 1) return (cluster[0] as CharacterEntry).to
    const length = cluster.reduce((sum, { bytes }) => sum + bytes.length, 0)
    const whole = length <= MAX_GRAPHEME_BYTES ? this.#replacement(cluster.flatMap(({ bytes }) => [...bytes])) : null
    return whole ?? cluster.map(({ to }) => to).join('')
  }

  #character(code: number): CharacterEntry {
    const known = this.#cache.get(code)
    if (known !== undefined) return known
    const char = String.fromCodePoint(code)
    const bytes = utf8Of(char)
    const entry = { to: this.#replacement(bytes) ?? char, bytes, kind: graphemeKind(char) }
    if (this.#cache.size >= MAX_CACHED) this.#cache.clear()
    this.#cache.set(code, entry)
    return entry
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

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

function fromBase64(text: string): Uint8Array {
  const digits = text.replace(/=+$/, '')
  const bytes = new Uint8Array(Math.floor((digits.length * 3) / 4))
  const values = new Map([...DIGITS].map((digit, value) => [digit, value]))
  let bits = 0
  let buffered = 0
  let at = 0
  for (const digit of digits) {
    buffered = ((buffered << 6) | (values.get(digit) ?? 0)) & 0xffffff
    bits += 6
    if (bits < 8) continue
    bits -= 8
    bytes[at++] = (buffered >>> bits) & 0xff
  }
  return bytes
}
