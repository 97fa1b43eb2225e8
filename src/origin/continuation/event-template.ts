import type { OutputRecord } from '../../core/continuation/output-record.ts'
import { payloadOf } from '../relay/sse-records.ts'
import { objectIn } from '../../protocols/stream/reader.ts'
import { readChunk } from '../../protocols/read-chunk.ts'

const QUOTE = 34

const COMMA = 44

const ZERO = 48

const OPEN = 91

const BACKSLASH = 92

const CLOSE = 93

/** Ids above are none: vocabularies are far smaller. */
const MAX_ID = 1e9

const NULL = Uint8Array.of(110, 117, 108, 108)

/** An event: up to its text, the text, up to its token ids, the ids, the end. */
const PARTS = /^(data: ?\{.*?"(?:content|text)": ?")(?:[^"\\]|\\.)*(".*"token_ids": ?)\[\d[\d,]*\](.*\n\n)$/ds

const latin1 = new TextDecoder('latin1')

const utf8 = new TextDecoder('utf-8', { fatal: false, ignoreBOM: true })

/**
 * The bytes that events of a stream have in common. Nearly all events differ only in text and token ids, so they are
 * compared with one that was parsed, and read without a parser.
 */
export class EventTemplate {
  readonly #head: Uint8Array
  readonly #middle: Uint8Array
  readonly #end: Uint8Array

  private constructor(parts: readonly Uint8Array[]) {
    const [head, middle, end] = parts
    this.#head = head!
    this.#middle = middle!
    this.#end = end!
  }

  /** null: the event is not plain output, which has nothing but text and ids. */
  static of(event: Uint8Array): EventTemplate | null {
    // One character for each byte, so that indices are the same.
    const found = PARTS.exec(latin1.decode(event))
    if (found === null) return null
    const [, head, middle, end] = found
    // The split is right if other text and ids in these places are read as such.
    const chunk = readChunk(payloadOf(`${head}text${middle}[7,8]${end}`) ?? '')
    const isPlain = chunk?.text === 'text' && chunk.ids?.join() === '7,8' && chunk.promptIds === null
    if (!isPlain || chunk.finish !== null || chunk.opens !== null) return null
    // Copies: the memory of the event changes. `slice` of a Node buffer would not copy.
    return new EventTemplate(found.indices!.slice(1).map((range) => new Uint8Array(event.subarray(...range!))))
  }

  /**
   * Adds text and ids of an event to the record, and replaces the ids by null, in place. Returns the event's new end;
   * -1: it is another event, and nothing was done.
   */
  take(bytes: Uint8Array, from: number, to: number, record: OutputRecord): number {
    const textFrom = from + this.#head.length
    if (!isAt(bytes, from, this.#head)) return -1
    const textTo = endOfString(bytes, textFrom, to)
    if (!isAt(bytes, textTo, this.#middle)) return -1
    const idsFrom = textTo + this.#middle.length
    const before = record.tokens
    const idsTo = addIds(bytes, idsFrom, record)
    // A shorter list has no room for null.
    const isWhole = idsTo - idsFrom >= NULL.length && idsTo + this.#end.length === to && isAt(bytes, idsTo, this.#end)
    if (!isWhole || !addText(bytes, textFrom, textTo, record)) {
      record.keepIds(before)
      return -1
    }
    bytes.set(NULL, idsFrom)
    bytes.set(this.#end, idsFrom + NULL.length)
    return idsFrom + NULL.length + this.#end.length
  }
}

function isAt(bytes: Uint8Array, from: number, wanted: Uint8Array): boolean {
  for (let at = 0; at < wanted.length; at++) if (bytes[from + at] !== wanted[at]) return false
  return true
}

/** Index of the quote that ends the JSON string; `to`: none does. */
function endOfString(bytes: Uint8Array, from: number, to: number): number {
  let at = from
  while (at < to && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1
  return at
}

/** Reads `[12,345]`. Returns the index after it; that of another byte if it is no list of ids. */
function addIds(bytes: Uint8Array, from: number, record: OutputRecord): number {
  if (bytes[from] !== OPEN) return from
  let at = from + 1
  for (;;) {
    const begins = at
    let id = 0
    for (let digit = bytes[at]! - ZERO; digit >= 0 && digit <= 9; digit = bytes[++at]! - ZERO) id = 10 * id + digit
    if (at === begins || id > MAX_ID) return from
    record.addId(id)
    if (bytes[at] === CLOSE) return at + 1
    if (bytes[at++] !== COMMA) return from
  }
}

/** Adds the text of a JSON string without its quotes. false: it is none. */
function addText(bytes: Uint8Array, from: number, to: number, record: OutputRecord): boolean {
  let at = from
  while (at < to && bytes[at]! < 0x80 && bytes[at] !== BACKSLASH) at++
  if (at === to) {
    record.addAscii(bytes, from, to)
    return true
  }
  const json = objectIn(`{"text":"${utf8.decode(bytes.subarray(from, to))}"}`)
  if (json === null) return false
  record.addText(json['text'] as string)
  return true
}
