/** Reads error bodies and error events of engines, and of proxies in front of them, in every known form. */
import { statusOfError, statusOfNames } from '../core/error-status.ts'
import { isJsonObject, type JsonObject } from '../core/json.ts'

/** An error in the terms of all forms. */
export interface ErrorBody {
  /** Status in the body. null: the body has none. */
  readonly status: number | null
  /** `code` that is no status, such as `model_not_found`. */
  readonly code: string | null
  readonly type: string | null
  readonly param: string | null
  /** Message; the text itself if the body is no JSON. */
  readonly message: string
}

/** Begin of a JSON document that is an error although the status is 200. A Responses answer has `"error": null`. */
const IS_ERROR = /^\s*\{\s*"(?:error"\s*:\s*[{"]|object"\s*:\s*"error"|type"\s*:\s*"(?:error|response\.failed)")/

/** True for the begin of a JSON document that reports an error. Only the first keys are read. */
export const isErrorDocument = (text: string): boolean => IS_ERROR.test(text)

export const isHtml = (text: string): boolean => /^\s*<(?:!doctype|html)\b/i.test(text)

/** Reads an error from a body, or from the first part of one. Never throws. */
export function errorOf(body: string): ErrorBody {
  const text = body.trim()
  if (!text.startsWith('{')) return { status: null, code: null, type: null, param: null, message: text }
  try {
    const json: unknown = JSON.parse(text)
    return isJsonObject(json) ? errorOfObject(json) : errorOfPart(text)
  } catch {
    return errorOfPart(text)
  }
}

/** Field of an object that may be absent or of another type. */
const textIn = (object: JsonObject, name: string): string | null => {
  const value = object[name]
  return typeof value === 'string' ? value : null
}

function errorOfObject(json: JsonObject): ErrorBody {
  const { response } = json
  // `response.failed` of the Responses API wraps the whole response.
  const outer = isJsonObject(response) && isJsonObject(response['error']) ? response : json
  const { error } = outer
  // TGI and Ollama have a text, `{"object":"error"}` has the fields at the top.
  const fields = isJsonObject(error) ? error : outer
  const type = textIn(fields, 'type') ?? textIn(outer, 'error_type')
  const code = fields['code'] ?? fields['http_status_code'] ?? null
  const status = statusIn(code)
  const name = status === null && typeof code === 'string' ? code : null
  return {
    status: status ?? statusOfError(fields, type, name),
    code: name,
    type,
    param: textIn(fields, 'param'),
    message: typeof error === 'string' ? error : (textIn(fields, 'message') ?? textIn(outer, 'detail') ?? ''),
  }
}

const PART = (name: string): RegExp => new RegExp(`"${name}"\\s*:\\s*"?((?:[^"\\\\]|\\\\.)*)`)
const PARTS = { message: PART('message'), type: PART('type'), code: PART('code'), error: /"error"\s*:\s*"([^"]*)/ }

/** Reads a document that was cut off. Escapes stay as they are. */
function errorOfPart(text: string): ErrorBody {
  const type = PARTS.type.exec(text)?.[1] ?? null
  const status = statusIn(/^\d+/.exec(PARTS.code.exec(text)?.[1] ?? '')?.[0])
  return {
    status: status ?? statusOfNames(type),
    code: null,
    type,
    param: null,
    message: PARTS.message.exec(text)?.[1] ?? PARTS.error.exec(text)?.[1] ?? text,
  }
}

/** Some versions send a number, others a string of digits. */
function statusIn(code: unknown): number | null {
  const status = typeof code === 'number' || (typeof code === 'string' && /^\d{3}$/.test(code)) ? Number(code) : null
  return status !== null && Number.isInteger(status) && status >= 400 && status < 600 ? status : null
}

interface FirstEvent {
  /** `event:` of the event. null: it has no name. */
  readonly name: string | null
  /** Lines of `data:`, joined. */
  readonly data: string
}

/** Reads the first event of a stream, or as much of it as has arrived. null: the text is no stream of events. */
export function firstEventOf(text: string): FirstEvent | null {
  if (!/^\s*(?::|data:|event:|id:|retry:)/.test(text)) return null
  let name: string | null = null
  const data: string[] = []
  for (const line of text.split(/\r\n|\n|\r/)) {
    if (line === '' && data.length > 0) break
    const [, field, value = ''] = /^(data|event): ?(.*)$/.exec(line) ?? []
    if (field === 'data') data.push(value)
    if (field === 'event') name = value
  }
  return { name, data: data.join('\n') }
}
