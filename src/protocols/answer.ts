/** Answers that are no stream: usage, and errors behind a success status. */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { errorIn, errorOfText, type EngineError } from './engine-error.ts'
import type { ReportedUsage } from './reported-usage.ts'
import { JsonMembers } from './stream/json-members.ts'
import { objectIn } from './stream/reader.ts'

const USAGE = ['usage']

/** Reads the usage of a JSON answer as its bytes pass. Only the top level counts, never echoed parts of the request. */
export class AnswerReader {
  readonly #members = new JsonMembers(USAGE)
  readonly #usageOf: (fields: JsonObject) => ReportedUsage

  constructor(usageOf: (fields: JsonObject) => ReportedUsage) {
    this.#usageOf = usageOf
  }

  take(chunk: Uint8Array, from = 0, to = chunk.length): void {
    this.#members.take(chunk, from, to)
  }

  /** Counts, after the last byte. null: the answer has no `usage` object. */
  get usage(): ReportedUsage | null {
    const text = this.#members.found.get('usage')
    const fields = text === undefined ? null : objectIn(text)
    return fields === null ? null : this.#usageOf(fields)
  }
}

/** Usage of an answer that was parsed. */
export const usageOfAnswer = (json: JsonObject, usageOf: (fields: JsonObject) => ReportedUsage): ReportedUsage | null =>
  isJsonObject(json['usage']) ? usageOf(json['usage']) : null

/** A longer body is an answer or begins with its error. */
const PARSED_BYTES = 16 * 1024
const SHOWN_BYTES = 1024
/** Bytes at the start that show a JSON document, and the error that it begins with. */
const START_BYTES = 64
const LETTER_OPEN = 123
const ERROR_BEGINS = /^\s*\{\s*"(?:error"\s*:\s*[{"]|(?:object|type)"\s*:\s*"error")/
const BLANK = /^[\s\uFEFF]*$/
const utf8 = new TextDecoder()

/**
 * Fault of an answer with a success status that should be JSON: empty, an error, or a page of a proxy. null: it looks
 * like an answer.
 * @param isWhole `start` is the whole body
 */
export function faultOfAnswer(start: Uint8Array, isWhole: boolean): EngineError | null {
  const isShort = isWhole && start.length <= PARSED_BYTES
  if (!isShort && start[0] === LETTER_OPEN && !ERROR_BEGINS.test(utf8.decode(start.subarray(0, START_BYTES))))
    return null
  const text = utf8.decode(isShort ? start : start.subarray(0, SHOWN_BYTES))
  if (BLANK.test(text)) return isWhole ? { status: null, message: 'The answer is empty.', body: '' } : null
  if (!/^[\s\uFEFF]*[{[]/.test(text)) return errorOfText(text)
  if (!isShort) return ERROR_BEGINS.test(text) ? errorOfText(text) : null
  const json = objectIn(text.trim())
  if (json !== null) return errorIn(json, text)
  // A list is an answer of some routes; anything else is a truncated document.
  return text.trim().startsWith('[') ? null : errorOfText(text)
}
