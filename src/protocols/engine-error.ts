/** Errors that engines and proxies report, in all forms seen in the field, as event or as body. */
import { statusOfError } from '../core/error-status.ts'
import { isJsonObject, type JsonObject } from '../core/json.ts'

/** An error that an engine reported. What it means (busy, lacking, broken) is the engine type's matter. */
export interface EngineError {
  /** Status that it names. null: none, so it counts as an internal error. */
  readonly status: number | null
  readonly message: string
  /** Its text as received, shortened, for the engine type's rules. */
  readonly body: string
}

/** Bytes of an error that are kept: enough for every message, and for a page of a proxy. */
const KEPT_CHARS = 16 * 1024

/** The error of an event or body that is one. null: it is something else. */
export function errorIn(json: JsonObject, text: string): EngineError | null {
  const { error } = json
  // OpenAI, vLLM, llama.cpp, Anthropic; `null` stands in answers without an error.
  if (isJsonObject(error)) return errorOf(error, text)
  // Ollama, TGI and vLLM's middleware: a text.
  if (typeof error === 'string' && error !== '') return { ...errorOf(json, text), message: error }
  // SGLang and older vLLM: flat.
  if (json['object'] === 'error') return errorOf(json, text)
  // OpenAI's Responses: `{"type":"error","code":…,"message":…}`.
  if (json['type'] === 'error') return errorOf(json, text)
  // Their failed response, which proxies also send in streams of other protocols.
  if (json['type'] === 'response.failed') return errorOf(failureIn(json['response']), text)
  // FastAPI and gateways.
  const hasAnswer = Array.isArray(json['choices']) || Array.isArray(json['data']) || Array.isArray(json['output'])
  if (hasAnswer || !('detail' in json || 'message' in json)) return null
  const isBare = typeof json['detail'] === 'string' || statusIn(json) !== null
  return isBare && json['role'] === undefined && json['type'] === undefined ? errorOf(json, text) : null
}

function failureIn(response: unknown): JsonObject {
  const error = isJsonObject(response) ? response['error'] : null
  return isJsonObject(error) ? error : {}
}

/** An error that the event's name announces, whatever its data are. */
export function errorNamed(json: JsonObject | null, text: string): EngineError {
  return json === null ? errorOfText(text) : (errorIn(json, text) ?? errorOf(json, text))
}

/** An error in plain text, or a page. */
export const errorOfText = (text: string): EngineError => ({
  status: null,
  message: text.trim().slice(0, 500),
  body: text.slice(0, KEPT_CHARS),
})

function errorOf(fields: JsonObject, text: string): EngineError {
  const { message, detail } = fields
  const reported = typeof message === 'string' ? message : typeof detail === 'string' ? detail : ''
  return { status: statusIn(fields), message: reported, body: text.slice(0, KEPT_CHARS) }
}

/** Status by number, by a string of digits, or by code, message or type. null: none is known. */
function statusIn(fields: JsonObject): number | null {
  const { code, status, status_code: statusCode, http_status_code: httpStatus, type, error_type: errorType } = fields
  for (const value of [code, statusCode, httpStatus, status]) {
    const number = typeof value === 'number' || typeof value === 'string' ? Number(value) : NaN
    if (Number.isInteger(number) && number >= 400 && number <= 599) return number
  }
  return statusOfError(fields, type, errorType, code)
}
