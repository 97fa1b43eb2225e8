import type { Exchange, PoolRoute } from '../origin/exchange.ts'
import { rejectExchange } from '../origin/forward.ts'
import { Failure } from '../failure.ts'
import { readJson } from './body.ts'
import { assertAccepting, type GatewayContext } from './context.ts'
import type { Endpoint } from './endpoints.ts'
import { InferenceExchange, authorizeOptions, type InferenceRequest } from './inference-exchange.ts'
import { readFields, readOptions, type Fields } from './fields.ts'
import { readForm } from './forms.ts'
import type { StoredResponse } from '../ports.ts'
import { authorizePriority, enforceLimits } from './request-limits.ts'
import type { RequestContext } from './request-context.ts'
import type { Caller } from './auth.ts'

/** Smaller bodies are processed without yielding. */
const TURNS_BYTES = 4 * 1024 * 1024

/** Handles a POST to an engine: authentication, body, overrides, routing. */
export async function proxy(context: GatewayContext, endpoint: Endpoint, incoming: RequestContext): Promise<Response> {
  const caller = await context.authenticator.caller(incoming.request.headers, endpoint.shape === 'anthropic')
  incoming.logFields['tenant'] = caller.tenant
  assertAccepting(context)
  const parsed = await parseInferenceRequest(context, endpoint, incoming, caller)
  const name = context.repeated.check(context, parsed)
  // Parsing, measuring and sending a long prompt take some 20 ms each, so other requests run in between.
  const turn = parsed.body.bytes.length < TURNS_BYTES ? undefined : context.ports.yieldToEventLoop
  await turn?.()
  const exchange = new InferenceExchange(context, parsed, context.ports.random())
  if (endpoint.storesResponses) exchange.onResponseId = keepResponse(context, parsed)
  incoming.logFields['model'] = parsed.model
  incoming.logFields['stream'] = exchange.stream
  await turn?.()
  await reserveLimits(context, exchange)
  try {
    return await context.forward(exchange)
  } catch (error) {
    context.repeated.failed(context, error, parsed, name)
    throw error
  }
}

/** Rejects with `rate_limited`. A carrier that is unreachable limits nothing. */
async function reserveLimits(context: GatewayContext, exchange: InferenceExchange): Promise<void> {
  try {
    await exchange.reserve(context)
  } catch (error) {
    if (!(error instanceof Failure)) return context.ports.log.warn('key_limit_unavailable', { error })
    rejectExchange(exchange, error, context.ports.now())
    throw error
  }
}

/** Reads and validates a request up to routing. */
export async function parseInferenceRequest(
  context: GatewayContext,
  endpoint: Endpoint,
  incoming: RequestContext,
  caller: Caller,
): Promise<InferenceRequest> {
  const { form } = endpoint
  const { limits } = context.config
  const { request, memory } = incoming
  const body = form
    ? await readForm(request, limits, memory)
    : await readJson(request, limits, { parseLong: context.ports.parseLong, memory })
  const { json } = body
  // Fields of a form are texts. The gateway uses only these two.
  const fields = readFields(form ? { model: json['model'], stream: json['stream'] } : json)
  const asked = readOptions(form ? null : json, incoming.request.headers.get('x-firstlight-options'))
  authorizeOptions(asked, caller)
  authorizePriority(json, caller, form)
  const options = caller.priority === null ? asked : { ...asked, priority: caller.priority }
  const stored = endpoint.storesResponses ? await storedResponseOf(context, fields, caller) : null
  const model = modelOf(context, fields, caller, stored)
  const offer = context.catalog.offer(model, caller)
  enforceLimits(body, limits)
  const routes = stored === null ? offer.routes : [routeOf(context, stored)]
  return { incoming, endpoint, caller, body, fields, options, model, routes, pinned: stored }
}

function modelOf(context: GatewayContext, fields: Fields, caller: Caller, stored: StoredResponse | null): string {
  if (fields.model) return fields.model
  if (stored !== null) return stored.model
  throw new Failure('model_missing', `The request names no model. ${context.catalog.hint(caller)}`, { param: 'model' })
}

async function storedResponseOf(
  context: GatewayContext,
  fields: Fields,
  caller: Caller,
): Promise<StoredResponse | null> {
  const id = fields.previous_response_id
  if (id === undefined || id === null) return null
  const stored = await context.storedResponses.find(id, caller.tenant)
  if (stored !== null) return stored
  throw new Failure(
    'not_found',
    `This gateway does not know which engine holds response '${id.slice(0, 100)}': it was never served here, ` +
      `or is forgotten. Send the conversation again in \`input\`, without previous_response_id.`,
    { param: 'previous_response_id' },
  )
}

export function routeOf(context: GatewayContext, stored: StoredResponse): PoolRoute {
  const route = context.catalog.route(stored.cluster, stored.pool)
  if (route !== null && route.targets.has(stored.engine)) return route
  throw new Failure(
    'not_found',
    'The engine that held this response is no longer part of the fleet. Send the conversation again in `input`.',
  )
}

function keepResponse(
  context: GatewayContext,
  { caller, model, routes }: InferenceRequest,
): NonNullable<Exchange['onResponseId']> {
  return ({ cluster, engine }, id) => {
    const route = routes.find((one) => one.cluster.id === cluster && one.targets.has(engine))
    if (route === undefined) return
    context.storedResponses.keep(id, { tenant: caller.tenant, cluster, pool: route.pool.model, engine, model })
  }
}
