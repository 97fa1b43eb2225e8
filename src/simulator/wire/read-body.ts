import type { Incoming } from '../answer.ts'
import type { Body } from './sampling.ts'
import { invalidBody, WireError } from './wire-error.ts'

/** The JSON object of a request, with the errors that FastAPI and pydantic give. */
export function readBody(incoming: Incoming): Body {
  const type = (incoming.headers.get('content-type') ?? '').split(';')[0]!.trim().toLowerCase()
  if (type !== 'application/json') {
    throw new WireError(400, 'Bad Request', "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed")
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
    const said = error instanceof Error ? error.message : ''
    // V8 gives no position at the end of the text.
    const at = /position (\d+)/.exec(said)?.[1] ?? String(text.length)
    throw invalidBody({ type: 'json_invalid', loc: `body.${at}`, message: 'JSON decode error', input: {}, context: inPython(said) })
  }
}

/** V8's complaint as Python's json module words it. */
function inPython(said: string): string {
  if (said.includes('property name')) return 'Expecting property name enclosed in double quotes'
  if (said.includes('after JSON')) return 'Extra data'
  if (said.includes("',' or")) return "Expecting ',' delimiter"
  if (said.includes("':'")) return "Expecting ':' delimiter"
  if (said.includes('Unterminated')) return 'Unterminated string starting at'
  return 'Expecting value'
}
