import { Failure } from '../../failure.ts'
import type { StoredResponse } from '../../ports/stored-responses.ts'
import type { Caller } from '../auth/caller.ts'
import type { withinEdgeRegions } from '../auth/residency.ts'
import { type JsonBody, readJson } from './body.ts'
import type { ChooseModel } from './choose-model.ts'
import type { ProtocolEndpoint } from '../../protocols/protocols.ts'
import type { Config } from '../../config.ts'
import type { Ports } from '../../ports.ts'
import { readFields, type RequestFields } from './request-fields.ts'
import { readForm } from './multipart.ts'
import type { InferenceRequest } from '../inference-request.ts'
import type { RequestContext } from '../request-context.ts'
import { OPTIONS_HEADER, type ReadOptions } from './requested-options.ts'
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

/** Reads and validates a request up to routing. The result is no promise if nothing has to be waited for. */
export function parseInferenceRequest(
  parts: ParseParts,
  endpoint: ProtocolEndpoint,
  incoming: RequestContext,
  holder: Caller,
): InferenceRequest | Promise<InferenceRequest> {
  const { form } = endpoint
  const { limits } = parts.config
  const { request, memory } = incoming
  const caller = parts.inRegions(holder, request.headers)
  const body = form
    ? readForm(request, limits, memory)
    : readJson(request, limits, { parseLong: parts.ports.parseLong, memory })
  const read = { incoming, endpoint, caller }
  return body instanceof Promise ? body.then((late) => validated(parts, read, late)) : validated(parts, read, body)
}

type ReadRequest = Pick<InferenceRequest, 'incoming' | 'endpoint' | 'caller' | 'body' | 'fields' | 'options'>

function validated(
  parts: ParseParts,
  { incoming, endpoint, caller }: Pick<ReadRequest, 'incoming' | 'endpoint' | 'caller'>,
  body: JsonBody,
): InferenceRequest | Promise<InferenceRequest> {
  const { form } = endpoint
  const { json } = body
  // Fields of a form are texts. The gateway uses only these two.
  const fields = readFields(form ? { model: json['model'], stream: json['stream'] } : json)
  const header = incoming.request.headers.get(OPTIONS_HEADER)
  const options = parts.optionsOf({ json, isForm: form, header }, caller)
  const read = { incoming, endpoint, caller, body, fields, options }
  if (endpoint.storesResponses || parts.adapters !== null) return lookedUp(parts, read)
  return withModel(parts, read, { name: modelOf(parts.models, fields, caller, null), stored: null })
}

/** Looks up the response that the request continues, and the adapters that engines report. */
async function lookedUp(parts: ParseParts, read: ReadRequest): Promise<InferenceRequest> {
  const { endpoint, fields, caller } = read
  const stored = endpoint.storesResponses ? await storedResponseOf(parts, fields, caller) : null
  const name = modelOf(parts.models, fields, caller, stored)
  if (parts.adapters !== null) await parts.adapters.refreshFor(name)
  return withModel(parts, read, { name, stored })
}

interface RequestedModel {
  readonly name: string
  /** null: the request continues no stored response. */
  readonly stored: StoredResponse | null
}

function withModel(parts: ParseParts, read: ReadRequest, { name, stored }: RequestedModel): InferenceRequest {
  const { incoming, endpoint, caller, body, fields, options } = read
  const offer = parts.models.offer(name, caller)
  enforceLimits(body, parts.config.limits)
  const { model, routes, chosen } = parts.chooseModel(offer, read, stored)
  return { incoming, endpoint, caller, body, fields, options, model, routes, chosen, pinned: stored }
}

function modelOf(models: ModelRegistry, fields: RequestFields, caller: Caller, stored: StoredResponse | null): string {
  if (fields.model) return fields.model
  if (stored !== null) return stored.model
  throw new Failure('model_missing', `The request names no model. ${models.hint(caller)}`, { param: 'model' })
}
