import type { Exchange } from '../origin/exchange.ts'
import type { PoolRoute } from '../origin/pool-route.ts'
import type { Caller } from './auth/caller.ts'
import type { JsonBody } from './body/body.ts'
import type { ProtocolEndpoint } from '../protocols/protocols.ts'
import type { RequestFields, RequestOptions } from './body/request-fields.ts'
import type { RequestContext } from './request-context.ts'

/** A validated inference request with its client, model and possible routes. */
export interface InferenceRequest {
  readonly incoming: RequestContext
  readonly endpoint: ProtocolEndpoint
  readonly caller: Caller
  /** Empty after the response has begun. */
  body: JsonBody
  readonly fields: RequestFields
  readonly options: RequestOptions
  /** Requested model name. */
  readonly model: string
  readonly routes: readonly PoolRoute[]
  readonly pinned: Exchange['pinned']
}
