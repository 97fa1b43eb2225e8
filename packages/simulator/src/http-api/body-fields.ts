/** Fields of a JSON body, read with the errors of pydantic. */
import { invalidBody } from './wire-error.ts'

export type Body = Readonly<Record<string, unknown>>

/** Reads a number; null if absent or null; pydantic's error otherwise. */
export function numberOf(body: Body, key: string): number | null {
  const value = body[key]
  if (value === undefined || value === null) return null
  if (typeof value === 'number') return value
  if (typeof value !== 'string') {
    throw invalidBody({
      type: 'float_type',
      loc: `body.${key}`,
      message: 'Input should be a valid number',
      input: value,
    })
  }
  const parsed = Number(value)
  if (value.trim() !== '' && Number.isFinite(parsed)) return parsed
  throw invalidBody({
    type: 'float_parsing',
    loc: `body.${key}`,
    message: 'Input should be a valid number, unable to parse string as a number',
    input: value,
  })
}

/** Reads a flag as pydantic does, including words for yes and no. */
export function flagOf(body: Body, key: string): boolean {
  const value = body[key]
  if (value === undefined || value === null) return false
  if (typeof value === 'boolean') return value
  const word = String(value).toLowerCase()
  if (['1', 'true', 't', 'yes', 'y', 'on'].includes(word)) return true
  if (['0', 'false', 'f', 'no', 'n', 'off'].includes(word)) return false
  throw invalidBody({
    type: 'bool_parsing',
    loc: `body.${key}`,
    message: 'Input should be a valid boolean, unable to interpret input',
    input: value,
  })
}
