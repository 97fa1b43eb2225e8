/** Requests with long prompts, parsed without a string of either the document or its long texts: each costs more than all else. */
import { isUtf8 } from 'node:buffer'
import { Utf8Text, restoreTexts } from '../../core/tokens/utf8-text.ts'
import { hasControl, UNFINISHED, Unescaper } from './json-text.ts'

/** Shorter documents are parsed whole: that takes no longer. */
const LEAST_BYTES = 64 * 1024
/** Shorter documents hold nobody up. */
const TURNS_BYTES = 4 * 1024 * 1024
/** Shorter texts stay in the document. */
const LONG_BYTES = 2 * 1024
/** A document is given up when it has more besides long texts than this and than a quarter of these: looking through it is slower than JSON.parse. */
const MOST_BETWEEN = 8 * 1024

const QUOTE = 0x22
const BACKSLASH = 0x5c
/** Begins a string that stands for a long text; its number follows. */
const MARK = '\0'
const MARK_IN_JSON = '\\u0000'

// A text may begin with what would be a byte order mark at the beginning of a document.
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })
const decode = (text: Uint8Array): string => utf8.decode(text)

/** The document with its long texts cut out of it, a mark in the place of each. */
interface Cut {
  readonly json: string
  readonly texts: readonly Utf8Text[]
}

/**
 * What JSON.parse makes of a document, but with `Utf8Text` for the long texts of its prompt. null: nothing is gained,
 * or something is wrong or odd: parse it whole.
 */
export function parseLong(bytes: Uint8Array): object | null {
  if (bytes.length < LEAST_BYTES) return null
  const parsing = parse(bytes)
  for (;;) {
    const step = parsing.next()
    if (step.done === true) return step.value
  }
}

/** The same, and `turn` is awaited within a document whose escapes take long. */
export function parseLongInTurns(
  turn: () => Promise<void>,
): (bytes: Uint8Array) => object | null | Promise<object | null> {
  const inTurns = async (bytes: Uint8Array): Promise<object | null> => {
    // Its last read may have moved all of it to larger memory.
    await turn()
    const parsing = parse(bytes)
    for (;;) {
      const step = parsing.next()
      if (step.done === true) return step.value
      await turn()
    }
  }
  return (bytes) => (bytes.length < TURNS_BYTES ? parseLong(bytes) : inTurns(bytes))
}

function* parse(bytes: Uint8Array): Generator<void, object | null> {
  if (!isUtf8(bytes)) return null
  const cut = yield* cutTexts(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))
  if (cut === null) return null
  try {
    const request = JSON.parse(cut.json) as unknown
    if (typeof request !== 'object' || request === null) return null
    const filled = restoreTexts(request, (value) =>
      value.startsWith(MARK) ? (cut.texts[Number(value.slice(1))] ?? null) : null,
    )
    return filled === cut.texts.length ? request : null
  } catch {
    // No JSON, or nested deeper than the stack is.
    return null
  }
}

/** null: there is no long text, or too much else, or a string that could be taken for a mark. */
function* cutTexts(bytes: Buffer): Generator<void, Cut | null> {
  const strings = new Strings(bytes)
  const texts: Utf8Text[] = []
  let json = ''
  let copied = 0
  let cutBytes = 0
  for (let open = bytes.indexOf(QUOTE); open >= 0;) {
    if (open - cutBytes > MOST_BETWEEN + cutBytes / 4) return null
    let string = strings.at(open + 1)
    while (string === 'unfinished') {
      yield
      string = strings.resume()
    }
    if (string === null) return null
    if (string.text !== null) {
      const before = bytes.toString('utf8', copied, open + 1)
      if (before.includes(MARK_IN_JSON)) return null
      json += `${before}${MARK_IN_JSON}${texts.length}`
      copied = string.end
      cutBytes += string.end - open
      texts.push(string.text)
    }
    open = bytes.indexOf(QUOTE, string.end + 1)
  }
  const rest = bytes.toString('utf8', copied)
  return texts.length === 0 || rest.includes(MARK_IN_JSON) ? null : { json: json + rest, texts }
}

interface JsonString {
  /** Where its closing quote is. */
  readonly end: number
  /** null: it is short. */
  readonly text: Utf8Text | null
}

/** The strings of a document, asked for from left to right. */
class Strings {
  readonly #bytes: Buffer
  readonly #view: DataView
  #unescaper: Unescaper | null = null
  /** Of the string that is unescaped. */
  #start = 0
  /** The first backslash at or after the place that was last asked for, or the end of the document. */
  #backslash = -1

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  }

  /** The string whose first byte is at `start`. null: it is no string of JSON. `unfinished`: `resume` goes on. */
  at(start: number): JsonString | 'unfinished' | null {
    const bytes = this.#bytes
    const quote = bytes.indexOf(QUOTE, start)
    if (quote < 0) return null
    if (this.#backslash < start) {
      const next = bytes.indexOf(BACKSLASH, start)
      this.#backslash = next < 0 ? bytes.length : next
    }
    if (this.#backslash < quote) return this.#escaped(start)
    if (quote - start < LONG_BYTES) return { end: quote, text: null }
    return hasControl(this.#view, start, quote)
      ? null
      : { end: quote, text: new Utf8Text(bytes.subarray(start, quote), decode) }
  }

  resume(): JsonString | 'unfinished' | null {
    return this.#read(this.#unescaper!.resume())
  }

  #escaped(start: number): JsonString | 'unfinished' | null {
    this.#start = start
    this.#unescaper ??= new Unescaper(this.#view)
    return this.#read(this.#unescaper.read(start))
  }

  #read(end: number): JsonString | 'unfinished' | null {
    if (end < 0) return end === UNFINISHED ? 'unfinished' : null
    return { end, text: end - this.#start < LONG_BYTES ? null : new Utf8Text(this.#unescaper!.take(), decode) }
  }
}
