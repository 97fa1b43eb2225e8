import type { Incoming } from '../answer.ts'
import type { Body } from './body-fields.ts'
import { invalidBody, WireError } from './wire-error.ts'

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
