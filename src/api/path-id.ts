import { Failure } from '../failure.ts'

/** Validates an id in a path: malformed ids are not found, and never become part of an engine's URL. */
export function idParam(value: string | undefined, what: string): string {
  if (value !== undefined && /^[\w.:=-]{1,200}$/.test(value)) return value
  throw new Failure('not_found', `Invalid ${what} id. An id has 1 to 200 letters, digits or characters of '_.:=-'.`)
}
