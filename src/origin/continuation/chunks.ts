/** Chunks of chat and completion streams, as far as a continuation reads and writes them. */
import type { OutputRecord } from '../../core/continuation/output-record.ts'
import { isJsonObject, type JsonObject } from '../../core/json.ts'
import { payloadOf } from '../relay/transform.ts'

/** One event of a stream. */
export interface Chunk {
  readonly json: JsonObject
  /** Ids of the tokens in this chunk; null: none were sent. */
  readonly ids: readonly number[] | null
  readonly promptIds: readonly number[] | null
  readonly text: string
  readonly finish: string | null
  /** The choice has fields besides text: reasoning, tool calls. */
  readonly opens: 'reasoning' | 'tools' | null
  /** A chat chunk whose delta has no field: it exists only because ids were requested. */
  readonly isEmpty: boolean
  /** No choice: the usage record. */
  readonly isUsage: boolean
  readonly isError: boolean
}

/** Reads the payload of an event. null: no JSON object. */
export function readChunk(payload: string): Chunk | null {
  const json = parse(payload)
  if (json === null) return null
  const { choices } = json
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
  if (!isJsonObject(choice))
    return { ...NOTHING, json, isUsage: isJsonObject(json['usage']), isError: isJsonObject(json['error']) }
  const delta = isJsonObject(choice['delta']) ? choice['delta'] : null
  const { finish_reason: finish } = choice
  return {
    json,
    ids: idsIn(choice['token_ids']),
    promptIds: idsIn(choice['prompt_token_ids']) ?? idsIn(json['prompt_token_ids']),
    text: textIn(delta === null ? choice['text'] : delta['content']),
    finish: typeof finish === 'string' ? finish : null,
    opens: delta === null ? null : openedBy(delta),
    isEmpty: delta !== null && Object.keys(delta).length === 0,
    isUsage: false,
    isError: false,
  }
}

const NOTHING = {
  ids: null,
  promptIds: null,
  text: '',
  finish: null,
  opens: null,
  isEmpty: false,
} as const

function parse(payload: string): JsonObject | null {
  try {
    const json: unknown = JSON.parse(payload)
    return isJsonObject(json) ? json : null
  } catch {
    return null
  }
}

const textIn = (value: unknown): string => (typeof value === 'string' ? value : '')
const idsIn = (value: unknown): readonly number[] | null => (Array.isArray(value) ? (value as number[]) : null)

function openedBy(delta: JsonObject): Chunk['opens'] {
  if (Array.isArray(delta['tool_calls']) && delta['tool_calls'].length > 0) return 'tools'
  return textIn(delta['reasoning'] ?? delta['reasoning_content']) === '' ? null : 'reasoning'
}

/** Matches no text of a string in the JSON: a quote inside a string has a backslash before it. */
const IDS = /"(prompt_token_ids|token_ids)":\s*\[[\d,\s]*\]/g

/** Replaces token ids by null, as an engine sends them when they are not requested. */
export const withoutIds = (payload: string): string => payload.replace(IDS, '"$1":null')

const QUOTE = 34
const COMMA = 44
const ZERO = 48
const OPEN = 91
const BACKSLASH = 92
const CLOSE = 93
/** Ids above are none: vocabularies are far smaller. */
const MOST_ID = 1e9
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
    if (at === begins || id > MOST_ID) return from
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
  const json = parse(`{"text":"${utf8.decode(bytes.subarray(from, to))}"}`)
  if (json === null) return false
  record.addText(json['text'] as string)
  return true
}

/** Fields that all chunks of a response have in common. */
export interface ResponseHead {
  readonly id: unknown
  readonly object: unknown
  readonly created: unknown
  readonly model: unknown
}

export const headOf = ({ id, object, created, model }: JsonObject): ResponseHead => ({
  id: id ?? null,
  object: object ?? null,
  created: created ?? null,
  model: model ?? null,
})

export interface OutputChunk {
  readonly text: string
  readonly finish: string | null
  readonly stopReason: unknown
  /** null: the client did not ask for ids. */
  readonly ids: readonly number[] | null
}

/** Writes a chunk in the client's format. */
export function outputChunk(head: ResponseHead, api: 'chat' | 'completions', chunk: OutputChunk): string {
  const { text, finish, stopReason, ids } = chunk
  const choice =
    api === 'chat'
      ? {
          index: 0,
          delta: text === '' && finish !== null ? {} : { content: text },
          logprobs: null,
          finish_reason: finish,
          ...(finish === null ? {} : { stop_reason: stopReason ?? null }),
          token_ids: ids,
        }
      : {
          index: 0,
          text,
          logprobs: null,
          finish_reason: finish,
          stop_reason: stopReason ?? null,
          prompt_token_ids: null,
          token_ids: ids,
        }
  return JSON.stringify({ ...head, choices: [choice] })
}

/** Writes the usage record. */
export const usageChunk = (head: ResponseHead, usage: JsonObject, rest: JsonObject): string =>
  JSON.stringify({ ...head, choices: [], usage, ...rest })
