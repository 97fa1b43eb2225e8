/**
 * The simulated model's tokenizer. It has no vocabulary: a token id is its text, packed. Words with their leading
 * space are split into pieces of up to four ASCII characters; each digit is a token; other characters take up to three
 * bytes of UTF-8 per token. English has about 3 characters per token and Chinese one. Decoding is exact, and a longer
 * text begins with the tokens of a shorter one except for its last word.
 */
export const special = { end: 0, start: 1, stop: 2 } as const

const specialText = ['<|endoftext|>', '<|im_start|>', '<|im_end|>']
const BYTE_BASE = 8
const PAIR_BASE = BYTE_BASE + 0x100
const TRIPLE_BASE = PAIR_BASE + 0x1_0000
const ASCII_BASE = TRIPLE_BASE + 0x100_0000

/** Ids are below this. */
export const vocabularySize = ASCII_BASE + 0x1000_0000

/** A growing list of token ids. */
export class TokenWriter {
  #ids = new Uint32Array(256)
  #length = 0

  get length(): number {
    return this.#length
  }

  push(id: number): void {
    if (this.#length === this.#ids.length) {
      const larger = new Uint32Array(this.#length * 2)
      larger.set(this.#ids)
      this.#ids = larger
    }
    this.#ids[this.#length] = id
    this.#length += 1
  }

  text(text: string): void {
    encodeInto(this, text)
  }

  ids(): Uint32Array {
    return this.#ids.slice(0, this.#length)
  }
}

export function encode(text: string): Uint32Array {
  const writer = new TokenWriter()
  encodeInto(writer, text)
  return writer.ids()
}

/** Classes of ASCII: 0 space, 1 letter, 2 digit, 3 newline and tab, 4 other. A piece has one class. */
function classOf(code: number): number {
  if (code === 32) return 0
  if ((code >= 97 && code <= 122) || (code >= 65 && code <= 90)) return 1
  if (code >= 48 && code <= 57) return 2
  return code < 32 ? 3 : 4
}

function encodeInto(writer: TokenWriter, text: string): void {
  let packed = 0
  let count = 0
  let kind = 0
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (code >= 0x80) {
      if (count > 0) writer.push(packId(packed, count))
      count = 0
      packed = 0
      at += encodeWide(writer, text, at)
      continue
    }
    const next = classOf(code)
    // A single space belongs to the word after it.
    const joins = next !== 2 && count < 4 && (next === kind || (kind === 0 && count === 1))
    if (count > 0 && !joins) {
      writer.push(packId(packed, count))
      count = 0
      packed = 0
    }
    packed = (packed << 7) | code
    count += 1
    kind = next
  }
  if (count > 0) writer.push(packId(packed, count))
}

/** `packed` holds `count` characters of 7 bits. */
function packId(packed: number, count: number): number {
  if (count === 4) return ASCII_BASE + packed
  if (count === 1) return BYTE_BASE + packed
  if (count === 2) return PAIR_BASE + ((packed >> 7) << 8) + (packed & 0x7f)
  return TRIPLE_BASE + ((packed >> 14) << 16) + (((packed >> 7) & 0x7f) << 8) + (packed & 0x7f)
}

/** Encodes one non-ASCII character as UTF-8. Returns the number of extra UTF-16 units. */
function encodeWide(writer: TokenWriter, text: string, at: number): number {
  let code = text.codePointAt(at)!
  const extra = code > 0xffff ? 1 : 0
  if (code >= 0xd800 && code <= 0xdfff) code = 0xfffd
  if (code < 0x800) writer.push(PAIR_BASE + ((0xc0 | (code >> 6)) << 8) + (0x80 | (code & 0x3f)))
  else if (code < 0x1_0000) {
    writer.push(
      TRIPLE_BASE + ((0xe0 | (code >> 12)) << 16) + ((0x80 | ((code >> 6) & 0x3f)) << 8) + (0x80 | (code & 0x3f)),
    )
  } else {
    writer.push(
      TRIPLE_BASE +
        ((0xf0 | (code >> 18)) << 16) +
        ((0x80 | ((code >> 12) & 0x3f)) << 8) +
        (0x80 | ((code >> 6) & 0x3f)),
    )
    writer.push(BYTE_BASE + (0x80 | (code & 0x3f)))
  }
  return extra
}

function pushBytes(bytes: number[], id: number): void {
  if (id >= ASCII_BASE) {
    const packed = id - ASCII_BASE
    bytes.push((packed >> 21) & 0x7f, (packed >> 14) & 0x7f, (packed >> 7) & 0x7f, packed & 0x7f)
  } else if (id >= TRIPLE_BASE) {
    const packed = id - TRIPLE_BASE
    bytes.push((packed >> 16) & 0xff, (packed >> 8) & 0xff, packed & 0xff)
  } else if (id >= PAIR_BASE) bytes.push(((id - PAIR_BASE) >> 8) & 0xff, (id - PAIR_BASE) & 0xff)
  else if (id >= BYTE_BASE) bytes.push(id - BYTE_BASE)
}

/** Decodes tokens to text. Special tokens are omitted by default, as in engines. */
export function decode(ids: ArrayLike<number>, withSpecial = false): string {
  let text = ''
  let bytes: number[] = []
  const flush = (): void => {
    if (bytes.length > 0) text += new TextDecoder().decode(new Uint8Array(bytes))
    bytes = []
  }
  for (let at = 0; at < ids.length; at += 1) {
    const id = ids[at]!
    if (id >= BYTE_BASE) pushBytes(bytes, id)
    else {
      flush()
      if (withSpecial) text += specialText[id] ?? ''
    }
  }
  flush()
  return text
}
