import { Failure } from '../../failure.ts'
import type { StoredResponse } from '../../ports/stored-responses.ts'
import type { Caller } from '../auth/caller.ts'
import type { withinEdgeRegions } from '../auth/residency.ts'
import { readJson } from './body.ts'
import type { ChooseModel } from './choose-model.ts'
import type { ProtocolEndpoint } from '../../protocols/protocols.ts'
import type { Config } from '../../config.ts'
import type { Ports } from '../../ports.ts'
import { readFields, type RequestFields } from './request-fields.ts'
import { readForm } from './multipart.ts'
import type { InferenceRequest } from '../inference-request.ts'
import type { RequestContext } from '../request-context.ts'
import type { ReadOptions } from './requested-options.ts'
import { enforceLimits } from './request-limits.ts'
import type { ModelRegistry } from '../model-registry.ts'
import type { ReportedAdapters } from '../reported-adapters.ts'
import { type StoredResponseParts, storedResponseOf } from '../stored-responses.ts'

export interface ParseParts extends Pick<StoredResponseParts, 'storedResponses'> {
  readonly config: Pick<Config, 'limits'>
  readonly ports: Pick<Ports, 'parseLong'>
  readonly models: ModelRegistry
  /** null: all names are configured. */
  readonly adapters: ReportedAdapters | null
  readonly optionsOf: ReadOptions
  readonly chooseModel: ChooseModel
  /** Reads the regions that an edge names, in gateways that choose among clusters. */
  readonly inRegions: typeof withinEdgeRegions
}

/** Reads and validates a request up to routing. */
export async function parseInferenceRequest(
  parts: ParseParts,
  endpoint: ProtocolEndpoint,
  incoming: RequestContext,
  holder: Caller,
): Promise<InferenceRequest> {
  const { form } = endpoint
  const { limits } = parts.config
  const { request, memory } = incoming
  const caller = parts.inRegions(holder, request.headers)
  const body = form
    ? await readForm(request, limits, memory)
    : await readJson(request, limits, { parseLong: parts.ports.parseLong, memory })
  const { json } = body
  // Fields of a form are texts. The gateway uses only these two.
  const fields = readFields(form ? { model: json['model'], stream: json['stream'] } : json)
  const header = request.headers.get('x-firstlight-options')
  const options = parts.optionsOf({ json, isForm: form, header }, caller)
  const stored = endpoint.storesResponses ? await storedResponseOf(parts, fields, caller) : null
  const name = modelOf(parts.models, fields, caller, stored)
  if (parts.adapters !== null) await parts.adapters.refreshFor(name)
  const offer = parts.models.offer(name, caller)
  enforceLimits(body, limits)
  const read = { incoming, endpoint, caller, body, fields, options }
  const { model, routes, chosen } = parts.chooseModel(offer, read, stored)
  return { incoming, endpoint, caller, body, fields, options, model, routes, chosen, pinned: stored }
}

function modelOf(models: ModelRegistry, fields: RequestFields, caller: Caller, stored: StoredResponse | null): string {
  if (fields.model) return fields.model
  if (stored !== null) return stored.model
  throw new Failure('model_missing', `The request names no model. ${models.hint(caller)}`, { param: 'model' })
}
