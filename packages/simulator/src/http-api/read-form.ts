import type { Incoming } from '../answer.ts'
import type { Body } from './body-fields.ts'
import { missing, WireError } from './wire-error.ts'

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
