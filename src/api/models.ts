/** `GET /v1/models` and `GET /v1/models/{name}`. */
import type { GatewayContext } from './context.ts'
import { jsonResponse } from './json-response.ts'
import type { ServedModel } from './model-registry.ts'
import type { RequestContext } from './request-context.ts'

/** Lists the models of the configuration; asks no engine. */
export async function listModels(context: GatewayContext, incoming: RequestContext): Promise<Response> {
  const caller = await context.authenticator.caller(incoming.request.headers, true)
  return jsonResponse(incoming, {
    object: 'list',
    data: context.models.offers(caller).map((offer) => modelCard(offer, context.startedAt)),
  })
}

export async function oneModel(context: GatewayContext, incoming: RequestContext, name: string): Promise<Response> {
  const caller = await context.authenticator.caller(incoming.request.headers, true)
  return jsonResponse(incoming, modelCard(context.models.offer(name, caller), context.startedAt))
}

/**
 * vLLM's model card without fields that only an engine knows. `parent` is set for adapters, as in vLLM; `root` of an
 * alias is its model.
 */
function modelCard({ name, kind, base }: ServedModel, startedAt: number): unknown {
  return {
    id: name,
    object: 'model',
    created: Math.floor(startedAt / 1000),
    owned_by: 'firstlight',
    root: kind === 'adapter' ? name : base,
    parent: kind === 'adapter' ? base : null,
  }
}
