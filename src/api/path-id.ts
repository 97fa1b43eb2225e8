import { Failure } from '../failure.ts'

/** Validates an id in a path: malformed ids are not found, and never become part of an engine's URL. */
export function idParam(value: string | undefined, what: string): string {
  if (value !== undefined && /^[\w.:=-]{1,200}$/.test(value)) return value
  throw new Failure('not_found', `That is not the id of a ${what}.`)
}
