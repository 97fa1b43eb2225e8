import type { Failure } from '../../failure.ts'
import type { Caller } from '../auth/caller.ts'
import type { InferenceExchange } from '../inference-exchange.ts'
import type { InferenceRequest } from '../inference-request.ts'
import type { RequestContext } from '../request-context.ts'

/** A request in front of its handler. The middleware that a comment names sets the field, for those behind it. */
export class RoutedRequest {
  readonly incoming: RequestContext
  /** `authenticate`. */
  caller!: Caller
  /** `readBody`. */
  inference!: InferenceRequest
  /** `openExchange`. */
  exchange!: InferenceExchange
  /** `refuseRepeated`. Called if the request fails later. */
  onFailure: ((failure: Failure) => void) | undefined = undefined

  constructor(incoming: RequestContext) {
    this.incoming = incoming
  }
}

/** A step in front of the handler of a route. It throws to refuse the request, and answers none itself. */
export type Middleware = (request: RoutedRequest) => void | Promise<void>

/** Middleware in front of a handler, in order. */
export type Chain = readonly Middleware[]
