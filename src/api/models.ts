/** `GET /v1/models` and `GET /v1/models/{name}`. */
import { type ListedModel, modelListFormOf } from '../protocols/model-list.ts'
import type { Caller } from './auth/caller.ts'
import type { ContextLengths } from './context-lengths.ts'
import { jsonResponse } from './json-response.ts'
import type { ModelRegistry, ServedModel } from './model-registry.ts'
import type { ReportedAdapters } from './reported-adapters.ts'
import type { RequestContext } from './request-context.ts'

export interface ModelParts {
  readonly models: Pick<ModelRegistry, 'offer' | 'offers'>
  /** null: all names are configured. */
  readonly adapters: Pick<ReportedAdapters, 'refresh' | 'refreshFor'> | null
  /** Start of the first gateway here, ms since the epoch. */
  readonly startedAt: number
}

type ListParts = ModelParts & { readonly lengths: ContextLengths }

interface ModelRequest {
  readonly incoming: RequestContext
  readonly caller: Caller
}

/** Lists the models of the configuration, and the adapters that engines have reported; asks no engine. */
export async function listModels(parts: ListParts, { incoming, caller }: ModelRequest): Promise<Response> {
  await parts.adapters?.refresh()
  const offers = parts.models.offers(caller)
  const length = await parts.lengths.read()
  const listed = offers.map((offer) => listedModel(parts, offer, length(offer)))
  return jsonResponse(incoming, modelListFormOf(incoming.request.headers).list(listed))
}

export async function oneModel(parts: ListParts, { incoming, caller }: ModelRequest, name: string): Promise<Response> {
  await parts.adapters?.refreshFor(name)
  const offer = parts.models.offer(name, caller)
  const length = await parts.lengths.read()
  return jsonResponse(
    incoming,
    modelListFormOf(incoming.request.headers).card(listedModel(parts, offer, length(offer))),
  )
}

/** `root` of an alias is its model, and `parent` is set for adapters, as in vLLM. */
function listedModel(
  { startedAt }: Pick<ListParts, 'startedAt'>,
  { name, kind, base }: ServedModel,
  contextTokens: number | null,
): ListedModel {
  const isAdapter = kind === 'adapter'
  return {
    id: name,
    root: isAdapter ? name : base,
    parent: isAdapter ? base : null,
    createdAt: startedAt,
    contextTokens,
  }
}
