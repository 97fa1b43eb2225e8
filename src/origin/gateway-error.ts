/** Anything thrown, as a client may see it. */
import { Failure } from '../failure.ts'
import type { GatewayError } from '../protocols/error-shape.ts'

/** Converts anything thrown to a failure. Unexpected errors show no details to the client. */
export function asFailure(thrown: unknown): Failure {
  if (thrown instanceof Failure) return thrown
  return new Failure(
    'internal',
    'The gateway failed to handle this request. Its log has the cause under this request id.',
    {
      cause: thrown,
    },
  )
}

/** The failure in the fields of every protocol. */
export function gatewayError(thrown: unknown): GatewayError {
  const { shape, param, message } = asFailure(thrown)
  const { status, type, code } = shape
  return { status, type, code, param, message }
}
