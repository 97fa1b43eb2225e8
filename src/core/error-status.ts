/** Statuses of errors whose body or event has no status. */
import type { JsonObject } from './json.ts'
import { isRequestError } from './request-errors.ts'

/**
 * By type or code: of [Anthropic](https://docs.anthropic.com/en/api/errors), OpenAI, vLLM, whose converter for messages
 * adds `internal_error`, and text-generation-inference.
 */
const STATUS_OF_NAME: ReadonlyMap<string, number> = new Map([
  ['BadRequestError', 400],
  ['invalid_request_error', 400],
  ['authentication_error', 401],
  ['billing_error', 402],
  ['permission_error', 403],
  ['NotFoundError', 404],
  ['not_found_error', 404],
  ['model_not_found', 404],
  ['request_too_large', 413],
  ['validation', 422],
  ['rate_limit_error', 429],
  ['rate_limit_exceeded', 429],
  ['api_error', 500],
  ['server_error', 500],
  ['internal_error', 500],
  ['InternalServerError', 500],
  ['generation', 500],
  ['incomplete_generation', 500],
  ['Service Unavailable', 503],
  ['ServiceUnavailableError', 503],
  ['unavailable_error', 503],
  ['timeout_error', 504],
  ['overloaded', 529],
  ['overloaded_error', 529],
  ['server_is_overloaded', 529],
  ['slow_down', 529],
])

/** Status of the first name that is known: the type or the code of an error. null: none is. */
export function statusOfNames(...names: readonly unknown[]): number | null {
  for (const name of names) {
    const status = typeof name === 'string' ? STATUS_OF_NAME.get(name) : undefined
    if (status !== undefined) return status
  }
  return null
}

/** Status of an error: 400 if the request is at fault, whatever its names are. null: unknown. */
export const statusOfError = (fields: JsonObject, ...names: readonly unknown[]): number | null =>
  isRequestError(fields) ? 400 : statusOfNames(...names)
