import type { MiddlewareHandler } from 'hono'
import type { Failure } from '../../failure.ts'
import type { RequestScope } from '../../ports/request-scope.ts'
import type { Caller } from '../auth/caller.ts'
import type { InferenceExchange } from '../inference-exchange.ts'
import type { InferenceRequest } from '../inference-request.ts'
import type { RequestContext } from '../request-context.ts'

/** Values of one request. Each is set by the middleware that its comment names. */
interface RequestVariables {
  /** `requestLog`. */
  readonly incoming: RequestContext
  /** `errorBoundary`; undefined: nothing failed. */
  readonly failure: Failure | undefined
  /** `authenticate`. */
  readonly caller: Caller
  /** `readBody`. */
  readonly inference: InferenceRequest
  /** `openExchange`. */
  readonly exchange: InferenceExchange
}

/** `Env` of Hono. */
export interface RequestEnv {
  readonly Bindings: RequestScope
  readonly Variables: RequestVariables
}

/**
 * Middleware of the gateway's Hono applications. It passes a request on or throws; it answers none itself. One that has
 * nothing to do after the response returns the promise of `next`.
 */
export type Middleware = MiddlewareHandler<RequestEnv>

/** Middleware in front of a handler, in order. */
export type Chain = readonly [Middleware, ...Middleware[]]
