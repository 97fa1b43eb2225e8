import type { Exchange } from '../origin/exchange.ts'
import type { PoolRoute } from '../origin/pool-route.ts'
import type { Caller } from './auth/caller.ts'
import type { JsonBody } from './body/body.ts'
import type { ProtocolEndpoint } from '../protocols/protocols.ts'
import type { RequestFields } from './body/request-fields.ts'
import type { RequestOptions } from './body/requested-options.ts'
import type { RequestContext } from './request-context.ts'
import type { ChosenTarget } from './weighted-models.ts'

/** A validated inference request with its client, model and possible routes. */
export interface InferenceRequest {
  readonly incoming: RequestContext
  readonly endpoint: ProtocolEndpoint
  readonly caller: Caller
  /** Empty after the response has begun. */
  body: JsonBody
  readonly fields: RequestFields
  readonly options: RequestOptions
  /** Model that serves it: the requested name, or the target of a weighted model. */
  readonly model: string
  /** null: the client requested no weighted model. */
  readonly chosen: ChosenTarget | null
  readonly routes: readonly PoolRoute[]
  readonly pinned: Exchange['pinned']
}
