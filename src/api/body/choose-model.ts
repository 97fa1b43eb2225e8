/** Which model and pools serve a request, by the name that the client requested. */
import type { StoredResponse } from '../../ports/stored-responses.ts'
import type { InferenceRequest } from '../inference-request.ts'
import type { ModelRegistry, ServedModel } from '../model-registry.ts'
import { routeOf } from '../stored-responses.ts'
import type { WeightedModels } from '../weighted-models.ts'
import { sessionIn } from './request-session.ts'

type ModelChoice = Pick<InferenceRequest, 'model' | 'routes' | 'chosen'>

/** @param stored the request continues this response, and stays with its engine; null: none */
export type ChooseModel = (
  offer: ServedModel,
  request: Omit<InferenceRequest, keyof ModelChoice | 'pinned'>,
  stored: StoredResponse | null,
) => ModelChoice

/** The model that the client requested. */
export const requestedModel =
  (models: ModelRegistry): ChooseModel =>
  ({ name, routes }, { caller }, stored) => ({
    model: name,
    routes: stored === null ? routes : [routeOf(models, stored, caller)],
    chosen: null,
  })

/** A target, if the client requested a weighted model. */
export function weightedModel(weighted: WeightedModels, models: ModelRegistry): ChooseModel {
  const plain = requestedModel(models)
  return (offer, request, stored) => {
    const { name, routes } = offer
    if (!weighted.has(name)) return plain(offer, request, stored)
    if (stored !== null) return plain({ ...offer, name: stored.model }, request, stored)
    const session = sessionIn(request, routes[0]!)?.id ?? null
    const { caller, options } = request
    const chosen = weighted.choose(name, { key: caller.tenant, session, requested: options.target })
    const target = models.target(chosen.target.model, caller)
    return { model: target.name, routes: target.routes, chosen }
  }
}
