/** `GET /v1/models` and `GET /v1/models/{name}`. */
import type { Caller } from './auth/caller.ts'
import type { GatewayStatus } from './gateway-status.ts'
import { jsonResponse } from './json-response.ts'
import type { ModelRegistry, ServedModel } from './model-registry.ts'
import type { RequestContext } from './request-context.ts'

export interface ModelParts {
  readonly models: Pick<ModelRegistry, 'offer' | 'offers'>
  readonly status: Pick<GatewayStatus, 'startedAt'>
}

/** Lists the models of the configuration; asks no engine. */
export function listModels({ models, status }: ModelParts, incoming: RequestContext, caller: Caller): Response {
  return jsonResponse(incoming, {
    object: 'list',
    data: models.offers(caller).map((offer) => modelCard(offer, status.startedAt)),
  })
}

export function oneModel(
  { models, status }: ModelParts,
  { incoming, caller }: { readonly incoming: RequestContext; readonly caller: Caller },
  name: string,
): Response {
  return jsonResponse(incoming, modelCard(models.offer(name, caller), status.startedAt))
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
