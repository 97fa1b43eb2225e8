import type { Config } from '../../config.ts'
import type { KeyUsage } from '../../core/limits/key-usage.ts'
import type { Ports } from '../../ports.ts'
import type { Telemetry } from '../../telemetry/telemetry.ts'
import type { RequestLimiter } from '../key-limits.ts'
import { openaiErrors } from '../../protocols/error-shape.ts'
import { endpointOf, endpoints, type ProtocolEndpoint } from '../../protocols/protocols.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import { clientMiddleware, type RouteMiddlewareParts } from '../route-middleware.ts'
import type { GatewayStatus } from '../gateway-status.ts'
import type { Mirrors } from '../mirrors.ts'
import type { ExchangeParts } from '../inference-exchange.ts'
import { authenticate } from '../middleware/authenticate.ts'
import type { Budgets } from '../budgets.ts'
import { checkBudgets } from '../middleware/check-budgets.ts'
import { chained } from '../middleware/chained.ts'
import { errorBoundary } from '../middleware/error-boundary.ts'
import { limitKeys } from '../middleware/limit-keys.ts'
import { offerPrompts } from '../middleware/offer-prompts.ts'
import { openTrace } from '../middleware/open-trace.ts'
import { openExchange } from '../middleware/open-exchange.ts'
import { readBody } from '../middleware/read-body.ts'
import { refuseRepeated, refusesLoad } from '../middleware/refuse-repeated.ts'
import { refuseWhileDraining } from '../middleware/refuse-while-draining.ts'
import { type App, newApp } from '../new-app.ts'
import type { ParseParts } from '../body/parse-request.ts'
import type { RequestHistory } from '../request-history.ts'
import { refuseOtherMethods } from '../refuse-other-methods.ts'
import type { Chain } from '../middleware/middleware.ts'
import { unknownRoute } from '../unknown-route.ts'
import { storedResponse, type StoredResponseParts } from '../stored-responses.ts'

/** @testing */
export interface InferenceParts extends ParseParts, ExchangeParts, StoredResponseParts, RouteMiddlewareParts {
  readonly config: Config
  readonly ports: Ports
  readonly models: StoredResponseParts['models']
  readonly storedResponses: StoredResponseParts['storedResponses']
  readonly authenticator: Authenticator
  readonly status: GatewayStatus
  readonly limiter: RequestLimiter
  readonly telemetry: Telemetry
  readonly recent: RequestHistory
  readonly usage: KeyUsage
  /** null: no key or team has a budget. */
  readonly budgets: Budgets | null
  /** null: no request is repeated. */
  readonly mirrors: Pick<Mirrors, 'around'> | null
}

/** The engines' API: every endpoint of a protocol (`endpoints` in its file in src/protocols), and stored responses. */
export function inferenceRoutes(parts: InferenceParts): App {
  const app = newApp()
  const forward = parts.mirrors?.around(parts.forward) ?? parts.forward
  for (const endpoint of endpoints)
    app.post(
      endpoint.path,
      chained({
        chain: inferenceChain(parts, endpoint),
        onError: errorBoundary(parts),
        handler: (c) => forward(c.get('exchange')),
      }),
    )
  mountStoredResponses(app, parts)
  return refuseOtherMethods(app, parts.config.cors, (path) =>
    clientMiddleware(parts, endpointOf(path)?.protocol.errors ?? openaiErrors),
  )
}

/** Everything between the socket and the pool, in order. What is not configured is absent. @testing */
export const inferenceChain = (parts: InferenceParts, endpoint: ProtocolEndpoint): Chain => [
  ...clientMiddleware(parts, endpoint.protocol.errors),
  authenticate(parts.authenticator, endpoint.protocol.acceptsApiKeyHeader),
  refuseWhileDraining(parts.status, parts.ports),
  ...(parts.budgets === null ? [] : [checkBudgets(parts.budgets)]),
  readBody(parts, endpoint),
  ...(refusesLoad(parts.config) ? [refuseRepeated(parts)] : []),
  openExchange(parts, endpoint),
  ...(parts.telemetry.traces ? [openTrace(parts)] : []),
  ...(parts.authenticator.hasEdges && parts.edgePrompts !== null ? [offerPrompts(parts.edgePrompts)] : []),
  ...(parts.authenticator.hasLimits ? [limitKeys(parts)] : []),
]

function mountStoredResponses(app: App, parts: InferenceParts): void {
  const chain: Chain = [
    ...clientMiddleware(parts),
    authenticate(parts.authenticator, false),
    refuseWhileDraining(parts.status, parts.ports),
  ]
  // No engine has these. They are no ids of responses, whose other methods would be offered.
  for (const path of ['/v1/responses/compact', '/v1/responses/input_tokens'])
    app.post(path, ...clientMiddleware(parts), () => {
      throw unknownRoute('POST', path)
    })
  app.on(['GET', 'DELETE'], '/v1/responses/:id', ...chain, (c) =>
    storedResponse(parts, { incoming: c.get('incoming'), caller: c.get('caller') }, c.req.param('id'), ''),
  )
  app.post('/v1/responses/:id/cancel', ...chain, (c) =>
    storedResponse(parts, { incoming: c.get('incoming'), caller: c.get('caller') }, c.req.param('id'), '/cancel'),
  )
}
