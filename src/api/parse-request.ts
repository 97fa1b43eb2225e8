import { Failure } from '../failure.ts'
import type { StoredResponse } from '../ports/stored-responses.ts'
import type { Caller } from './auth/caller.ts'
import { readJson } from './body.ts'
import type { GatewayContext } from './context.ts'
import type { ProtocolEndpoint } from '../protocols/protocols.ts'
import { readFields, readOptions, type RequestFields } from './fields.ts'
import { readForm } from './multipart.ts'
import type { InferenceRequest } from './inference-request.ts'
import { authorizeOptions, authorizePriority } from './permissions.ts'
import type { RequestContext } from './request-context.ts'
import { enforceLimits } from './request-limits.ts'
import { routeOf, storedResponseOf } from './stored-responses.ts'

/** Reads and validates a request up to routing. */
export async function parseInferenceRequest(
  context: GatewayContext,
  endpoint: ProtocolEndpoint,
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
  const clientOptions = readOptions(form ? null : json, incoming.request.headers.get('x-firstlight-options'))
  authorizeOptions(clientOptions, caller)
  authorizePriority(json, caller, form)
  const options = caller.priority === null ? clientOptions : { ...clientOptions, priority: caller.priority }
  const stored = endpoint.storesResponses ? await storedResponseOf(context, fields, caller) : null
  const model = modelOf(context, fields, caller, stored)
  const offer = context.models.offer(model, caller)
  enforceLimits(body, limits)
  const routes = stored === null ? offer.routes : [routeOf(context, stored)]
  return { incoming, endpoint, caller, body, fields, options, model, routes, pinned: stored }
}

function modelOf(
  context: GatewayContext,
  fields: RequestFields,
  caller: Caller,
  stored: StoredResponse | null,
): string {
  if (fields.model) return fields.model
  if (stored !== null) return stored.model
  throw new Failure('model_missing', `The request names no model. ${context.models.hint(caller)}`, { param: 'model' })
}
