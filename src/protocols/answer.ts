/** Answers that are no stream: usage, and errors behind a success status. */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { errorIn, errorOfText, type EngineError } from './engine-error.ts'
import type { ReportedUsage } from './reported-usage.ts'
import { JsonMembers } from './stream/json-members.ts'
import { objectIn } from './stream/reader.ts'

const USAGE = ['usage']

/** Reads the usage of a JSON answer as its bytes pass. Only the top level counts, never echoed parts of the request. */
export class AnswerReader {
  /** null: the answer was parsed whole. */
  readonly #members: JsonMembers | null
  readonly #whole: JsonObject | null
  readonly #usageOf: (fields: JsonObject) => ReportedUsage

  /** @param whole the answer, if it was parsed: its bytes are not read again. null: it was not */
  constructor(usageOf: (fields: JsonObject) => ReportedUsage, whole: JsonObject | null = null) {
    this.#usageOf = usageOf
    this.#whole = whole
    this.#members = whole === null ? new JsonMembers(USAGE) : null
  }

  take(chunk: Uint8Array, from = 0, to = chunk.length): void {
    this.#members?.take(chunk, from, to)
  }

  /** Counts, after the last byte. null: the answer has no `usage` object. */
  get usage(): ReportedUsage | null {
    if (this.#whole !== null) return usageOfAnswer(this.#whole, this.#usageOf)
    const text = this.#members!.found.get('usage')
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

/** What the beginning of an answer shows. */
interface JudgedAnswer {
  /** Fault of an answer that should be JSON: empty, an error, or a page of a proxy. null: it looks like an answer. */
  readonly fault: EngineError | null
  /** The answer, if it was parsed whole. null: it was not, or is no object. */
  readonly json: JsonObject | null
}

/**
 * Judges an answer with a success status.
 * @param isWhole `start` is the whole body
 */
export function judgeAnswer(start: Uint8Array, isWhole: boolean): JudgedAnswer {
  const isShort = isWhole && start.length <= PARSED_BYTES
  if (!isShort && start[0] === LETTER_OPEN && !ERROR_BEGINS.test(utf8.decode(start.subarray(0, START_BYTES))))
    return NO_FAULT
  const text = utf8.decode(isShort ? start : start.subarray(0, SHOWN_BYTES))
  if (BLANK.test(text)) return isWhole ? faulty({ status: null, message: 'The answer is empty.', body: '' }) : NO_FAULT
  if (!/^[\s\uFEFF]*[{[]/.test(text)) return faulty(errorOfText(text))
  if (!isShort && !ERROR_BEGINS.test(text)) return NO_FAULT
  // The end of a short document may not have been seen yet.
  const json = objectIn(text.trim())
  if (json !== null) return { fault: errorIn(json, text), json }
  if (!isShort) return faulty(errorOfText(text))
  // A list is an answer of some routes; anything else is a truncated document.
  return text.trim().startsWith('[') ? NO_FAULT : faulty(errorOfText(text))
}

/** Fault of a whole answer. null: it looks like an answer. */
export const faultOfAnswer = (body: Uint8Array): EngineError | null => judgeAnswer(body, true).fault

const NO_FAULT: JudgedAnswer = { fault: null, json: null }

const faulty = (fault: EngineError): JudgedAnswer => ({ fault, json: null })
