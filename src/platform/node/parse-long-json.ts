/**
 * Parses requests with long prompts without strings of the document and its long texts. Why:
 * docs/decisions/second-paths.md.
 */
import { isUtf8 } from 'node:buffer'
import { restoreTexts } from '../../core/tokens/restore-texts.ts'
import { Utf8Text } from '../../core/tokens/utf8-text.ts'
import { PART_TEXTS } from '../../protocols/chat-messages.ts'
import { allPromptTexts } from '../../protocols/protocols.ts'
import { BACKSLASH, hasControl, QUOTE, Unescaper, UNFINISHED } from './json-text.ts'

/** Shorter documents are parsed whole, which takes no longer. */
const MIN_BYTES = 64 * 1024

/** Shorter documents delay no other request. */
const TURNS_BYTES = 4 * 1024 * 1024

/** Shorter texts stay in the document. */
const LONG_BYTES = 2 * 1024

/**
 * A document with more bytes outside long texts than this and a quarter of these texts is parsed whole: the search
 * would be slower than JSON.parse.
 */
const MAX_BETWEEN_BYTES = 8 * 1024

/** Start of a string that replaces a long text; the number of the text follows. */
const MARK = '\0'

const MARK_IN_JSON = '\\u0000'

const PROMPT_MEMBERS = { request: allPromptTexts, part: PART_TEXTS }

// A text may begin with a byte order mark, which only a document must not.
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })

const decode = (text: Uint8Array): string => utf8.decode(text)

/** The document with a mark in the place of each long text. */
interface ShortenedDocument {
  readonly json: string
  readonly texts: readonly Utf8Text[]
}

/**
 * What JSON.parse makes of a document, but with `Utf8Text` for the long texts of its prompt. null: nothing is gained,
 * or something is wrong or odd: parse it whole.
 * @testing
 */
export function parseLong(bytes: Uint8Array): object | null {
  if (bytes.length < MIN_BYTES) return null
  const parsing = parse(bytes)
  for (;;) {
    const step = parsing.next()
    if (step.done === true) return step.value
  }
}

/** Like `parseLong`, and awaits `turn` while it reads a document whose escapes take long. */
export function parseLongInTurns(
  turn: () => Promise<void>,
): (bytes: Uint8Array) => object | null | Promise<object | null> {
  const inTurns = async (bytes: Uint8Array): Promise<object | null> => {
    // The last read may have copied the whole body to larger memory.
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
  const shortened = yield* extractTexts(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))
  if (shortened === null) return null
  try {
    const request = JSON.parse(shortened.json) as unknown
    if (typeof request !== 'object' || request === null) return null
    const filled = restoreTexts(request, PROMPT_MEMBERS, (value) =>
      value.startsWith(MARK) ? (shortened.texts[Number(value.slice(1))] ?? null) : null,
    )
    return filled === shortened.texts.length ? request : null
  } catch {
    // Not JSON, or nested too deeply for the stack.
    return null
  }
}

/** null: no long text, too much besides, or a string that looks like a mark. */
function* extractTexts(bytes: Buffer): Generator<void, ShortenedDocument | null> {
  const strings = new Strings(bytes)
  const texts: Utf8Text[] = []
  let json = ''
  let copied = 0
  let extractedBytes = 0
  for (let open = bytes.indexOf(QUOTE); open >= 0;) {
    if (open - extractedBytes > MAX_BETWEEN_BYTES + extractedBytes / 4) return null
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
      extractedBytes += string.end - open
      texts.push(string.text)
    }
    open = bytes.indexOf(QUOTE, string.end + 1)
  }
  const rest = bytes.toString('utf8', copied)
  return texts.length === 0 || rest.includes(MARK_IN_JSON) ? null : { json: json + rest, texts }
}

interface JsonString {
  /** Position of the closing quote. */
  readonly end: number
  /** null: a short string. */
  readonly text: Utf8Text | null
}

/** The strings of a document, read from left to right. */
class Strings {
  readonly #bytes: Buffer
  readonly #view: DataView
  #unescaper: Unescaper | null = null
  /** Start of the string being unescaped. */
  #start = 0
  /** First backslash at or after the last position, or the end of the document. */
  #backslash = -1

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  }

  /** Reads the string whose first byte is at `start`. null: not a JSON string. `unfinished`: call `resume`. */
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
