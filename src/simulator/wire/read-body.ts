import type { Incoming } from '../answer.ts'
import type { Body } from './sampling.ts'
import { invalidBody, WireError } from './wire-error.ts'

/** The JSON object of a request, with the errors that FastAPI and pydantic give. */
export function readBody(incoming: Incoming): Body {
  const type = (incoming.headers.get('content-type') ?? '').split(';')[0]!.trim().toLowerCase()
  if (type !== 'application/json') {
    throw new WireError(400, 'Bad Request', "Unsupported Media Type: Only 'application/json' is allowed")
  }
  const value = parse(incoming.body)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalidBody('body', `{'type': 'model_attributes_type', 'loc': 'body', 'msg': 'Input should be a valid dictionary or object to extract fields from', 'input': ${incoming.body}}`)
  }
  return value as Body
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const at = /position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1] ?? '0'
    throw invalidBody(`body.${at}`, `{'type': 'json_invalid', 'loc': 'body.${at}', 'msg': 'JSON decode error', 'input': {}, 'ctx': {'error': 'Expecting value'}}`)
  }
}

/** The error for a required field that is not there. */
export const missing = (field: string, body: Body): WireError =>
  invalidBody(`body.${field}`, `{'type': 'missing', 'loc': 'body.${field}', 'msg': 'Field required', 'input': ${pythonRepr(body)}}`)

/** As Python prints a parsed JSON value. */
export function pythonRepr(value: unknown): string {
  if (value === null || value === undefined) return 'None'
  if (value === true) return 'True'
  if (value === false) return 'False'
  if (typeof value === 'string') return value.includes("'") && !value.includes('"') ? JSON.stringify(value) : `'${value.replaceAll("'", "\\'")}'`
  if (Array.isArray(value)) return `[${value.map(pythonRepr).join(', ')}]`
  if (typeof value === 'object') {
    return `{${Object.entries(value).map(([key, entry]) => `${pythonRepr(key)}: ${pythonRepr(entry)}`).join(', ')}}`
  }
  return String(value)
}
