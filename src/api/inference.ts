import { Failure } from '../failure.ts'
import { rejectExchange } from '../origin/forward.ts'
import { assertAccepting } from './drain.ts'
import type { GatewayContext } from './context.ts'
import type { ProtocolEndpoint } from '../protocols/protocols.ts'
import { InferenceExchange } from './inference-exchange.ts'
import { parseInferenceRequest } from './parse-request.ts'
import type { RequestContext } from './request-context.ts'
import { keepResponse } from './stored-responses.ts'

/** Smaller bodies are processed without yielding. */
const TURNS_BYTES = 4 * 1024 * 1024

/** Handles a POST to an engine: authentication, body, overrides, routing. */
export async function proxy(
  context: GatewayContext,
  endpoint: ProtocolEndpoint,
  incoming: RequestContext,
): Promise<Response> {
  const { acceptsApiKeyHeader } = endpoint.protocol.errors
  const caller = await context.authenticator.caller(incoming.request.headers, acceptsApiKeyHeader)
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
