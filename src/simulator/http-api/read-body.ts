import type { Incoming } from '../answer.ts'
import type { Body } from './sampling.ts'
import { invalidBody, WireError, missing } from './wire-error.ts'

/** A form as engines read it: the last value of each field, and the file. */
export interface Form {
  readonly fields: Body
  readonly file: string
}

/**
 * Parses a multipart request. Non-text bytes are not distinguished. Fails as FastAPI does without a file, and counts
 * `preset` fields as received.
 */
export function readForm(incoming: Incoming, preset: readonly string[]): Form {
  const type = incoming.headers.get('content-type') ?? ''
  const boundary = /^multipart\/form-data;.*boundary="?([^";]+)"?/i.exec(type)?.[1]
  const fields = new Map<string, string>()
  let file: string | null = null
  const parts = boundary === undefined ? [] : `\r\n${incoming.body}`.split(`\r\n--${boundary}`).slice(1, -1)
  for (const part of parts) {
    const at = part.indexOf('\r\n\r\n')
    const head = part.slice(0, at)
    const value = part.slice(at + 4)
    const name = /[; ]name="?([^";\r]*)"?/i.exec(head)?.[1] ?? ''
    if (!/;\s*filename/i.test(head)) fields.set(name, value)
    else if (name === 'file') file = value
  }
  const body = Object.fromEntries(fields)
  if (file !== null) return { fields: body, file }
  if (fields.has('file'))
    throw new WireError(422, 'Unprocessable Entity', "Expected 'file' to be a file-like object, not 'str'.")
  throw missing('file', { ...Object.fromEntries(preset.map((name) => [name, null])), ...body })
}

/** Parses the JSON body of a request, with the errors of FastAPI and pydantic. */
export function readBody(incoming: Incoming): Body {
  const type = (incoming.headers.get('content-type') ?? '').split(';')[0]!.trim().toLowerCase()
  if (type !== 'application/json') {
    throw new WireError(
      400,
      'Bad Request',
      "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed",
    )
  }
  if (incoming.body === '') throw invalidBody({ type: 'missing', loc: 'body', message: 'Field required', input: null })
  const value = parse(incoming.body)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalidBody({
      type: 'model_attributes_type',
      loc: 'body',
      message: 'Input should be a valid dictionary or object to extract fields from',
      input: value,
    })
  }
  return value as Body
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const message = error instanceof Error ? error.message : ''
    // V8 reports no position at the end of the text.
    const at = /position (\d+)/.exec(message)?.[1] ?? String(text.length)
    throw invalidBody({
      type: 'json_invalid',
      loc: `body.${at}`,
      message: 'JSON decode error',
      input: {},
      context: inPython(message),
    })
  }
}

/** Translates V8's error message to that of Python's json module. */
function inPython(message: string): string {
  if (message.includes('property name')) return 'Expecting property name enclosed in double quotes'
  if (message.includes('after JSON')) return 'Extra data'
  if (message.includes("',' or")) return "Expecting ',' delimiter"
  if (message.includes("':'")) return "Expecting ':' delimiter"
  if (message.includes('Unterminated')) return 'Unterminated string starting at'
  return 'Expecting value'
}
