/**
 * Recognizes ordinary output chunks of chat and completion streams without a parser. Nearly all chunks of a stream
 * differ from one another only in one text, so a chunk is compared with one that was parsed.
 */
import { isAt, viewOf, type Words, wordsOf } from './words.ts'

/** A member with a text that may be the output. Quotes in texts are escaped, so no text has such a member. */
const TEXTS = /"(?:content|reasoning_content|reasoning|text|arguments)": ?"/g
const TEXT = /(?:[^"\\]|\\.)*/sy
const START = /^data: ?\{/
const NO_FINISH = '"finish_reason":null'
const END = /\r?\n\r?\n$/
const QUOTE = 34
const BACKSLASH = 92
/** Longer events are parsed: they are no ordinary chunks. */
const MAX_BYTES = 2048
const latin1 = new TextDecoder('latin1')

/**
 * The bytes around the text. The beginning up to `"choices"` (id, time, model) only has to have the same length. The
 * text cannot imitate the rest: the compared bytes have quotes outside strings, and quotes in a text are escaped.
 */
export class PlainChunk {
  /** Choice that the text belongs to. */
  readonly choice: number
  readonly #headBytes: number
  readonly #beforeText: Words
  readonly #afterText: Words
  /** The compared bytes show that there is no finish reason. Otherwise one may be where the text ends. */
  readonly #isUnfinished: boolean

  private constructor(choice: number, headBytes: number, beforeText: Uint8Array, afterText: Uint8Array) {
    this.choice = choice
    this.#headBytes = headBytes
    this.#isUnfinished = [beforeText, afterText].some((part) => latin1.decode(part).includes(NO_FINISH))
    this.#beforeText = wordsOf(beforeText)
    this.#afterText = wordsOf(afterText)
  }

  /**
   * Makes a template of an output event of a choice. null: its text cannot be told from the rest.
   * @param isPlain whether the same event with another text is output, too: with this text, no usage and no end
   */
  static of(event: Uint8Array, choice: number, isPlain: (data: string, text: string) => boolean): PlainChunk | null {
    if (event.length > MAX_BYTES) return null
    // One character for each byte, so that indices are the same.
    const text = latin1.decode(event)
    const choices = text.indexOf('"choices"')
    if (choices < 0 || !START.test(text) || !END.test(text)) return null
    for (const { index, 0: member } of text.matchAll(TEXTS)) {
      const textFrom = (TEXT.lastIndex = index + member.length)
      TEXT.test(text)
      const textTo = TEXT.lastIndex
      const other = `${text.slice(text.indexOf('{'), textFrom)}other text${text.slice(textTo).trimEnd()}`
      if (index < choices || !isPlain(other, 'other text')) continue
      return new PlainChunk(choice, textFrom, event.subarray(choices, textFrom), event.subarray(textTo))
    }
    return null
  }

  /** Whether the range, which is one whole event, is such a chunk. */
  matches(bytes: Uint8Array, from: number, to: number): boolean {
    const before = this.#beforeText
    const after = this.#afterText
    const afterAt = to - after.bytes
    // A chunk without text is not output.
    if (afterAt <= from + this.#headBytes) return false
    const view = viewOf(bytes)
    const { byteOffset } = bytes
    const textAt = from + this.#headBytes
    return (
      isAt(view, byteOffset + textAt - before.bytes, before) &&
      isAt(view, byteOffset + afterAt, after) &&
      (this.#isUnfinished || isOneText(bytes, textAt, afterAt))
    )
  }
}

/** No quote ends the text before `to`. */
function isOneText(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) {
    if (bytes[at] === QUOTE) return false
    if (bytes[at] === BACKSLASH) at++
  }
  return true
}

/** Templates that are kept: forms of the engines behind the gateway, with the lengths of their ids and names. */
const MAX_KEPT = 16

/**
 * Templates of one grammar, for all streams: they have no text of a request or an answer. The last hit of a stream is
 * compared first, so a stream costs one comparison an event.
 */
export class PlainChunks {
  readonly #kept: PlainChunk[] = []

  /** The template that the event matches. undefined: none. */
  find(bytes: Uint8Array, from: number, to: number): PlainChunk | undefined {
    const kept = this.#kept
    for (let i = 0; i < kept.length; i++) if (kept[i]!.matches(bytes, from, to)) return kept[i]
    return undefined
  }

  add(plain: PlainChunk): void {
    this.#kept.unshift(plain)
    if (this.#kept.length > MAX_KEPT) this.#kept.pop()
  }
}
