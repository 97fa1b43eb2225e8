import { responses } from '../protocols/responses.ts'
import type { Admission } from '../core/contract/admission.ts'
import { PAYLOAD_VERSION } from '../core/contract/payload-version.ts'
import { openRecord } from '../core/reports/request-record.ts'
import { Failure } from '../failure.ts'
import { type Exchange, plainExchange } from '../origin/exchange.ts'
import type { RequestAdmission } from '../origin/request-source.ts'
import type { PoolRoute } from '../origin/pool-route.ts'
import { type EngineHeaderRules, headersForEngine } from '../origin/headers.ts'
import { targetOf } from '../origin/rank-targets.ts'
import type { Config } from '../config.ts'
import type { Ports } from '../ports.ts'
import type { StoredResponse, StoredResponses } from '../ports/stored-responses.ts'
import type { Caller } from './auth/caller.ts'
import { mayServe } from './auth/residency.ts'
import type { RequestFields } from './body/request-fields.ts'
import { engineModel, type ModelRegistry } from './model-registry.ts'
import type { RequestContext } from './request-context.ts'
import { idParam } from './path-id.ts'

export interface StoredResponseParts {
  readonly config: Pick<Config, 'limits' | 'version'>
  readonly engineHeaders: EngineHeaderRules
  readonly ports: Pick<Ports, 'now'>
  readonly models: ModelRegistry
  readonly storedResponses: StoredResponses
  readonly forward: (exchange: Exchange) => Promise<Response>
}

export async function storedResponseOf(
  { storedResponses }: Pick<StoredResponseParts, 'storedResponses'>,
  fields: RequestFields,
  caller: Caller,
): Promise<StoredResponse | null> {
  const id = fields.previous_response_id
  if (id === undefined || id === null) return null
  const stored = await storedResponses.find(id, caller.tenant)
  if (stored !== null) return stored
  throw new Failure(
    'not_found',
    `No engine is recorded for response '${id.slice(0, 100)}': it was not served here, or its entry was evicted. ` +
      'Send the conversation again in `input`, without previous_response_id.',
    { param: 'previous_response_id' },
  )
}

export function routeOf(models: ModelRegistry, stored: StoredResponse, caller: Caller): PoolRoute {
  const route = models.route(stored.cluster, stored.pool)
  if (route !== null && !mayServe(route.cluster, caller))
    throw new Failure(
      'not_found',
      'The engine of this response is in a region that this key may not use. Send the conversation again in `input`.',
    )
  if (route !== null && targetOf(route.targets, stored.engine) !== undefined) return route
  throw new Failure(
    'not_found',
    'The engine of this response is no longer configured. Send the conversation again in `input`.',
  )
}

/** GET, DELETE and cancel of a stored response; only the engine that stores it can answer. */
export async function storedResponse(
  parts: StoredResponseParts,
  { incoming, caller }: { readonly incoming: RequestContext; readonly caller: Caller },
  id: string | undefined,
  action: '' | '/cancel',
): Promise<Response> {
  const responseId = idParam(id, 'response')
  const stored = await parts.storedResponses.find(responseId, caller.tenant)
  if (stored === null) {
    throw new Failure(
      'not_found',
      `Response '${responseId}' not found: it was not served here, was evicted, or belongs to another key. ` +
        'Create it again with POST /v1/responses.',
    )
  }
  const response = await parts.forward(
    exchangeWithoutBody(parts, incoming, { stored, caller, path: `/v1/responses/${responseId}${action}` }),
  )
  const { method } = incoming.request
  const isUnsupported = method === 'DELETE' && response.status === 405
  // For HEAD the engine gets a GET, and Hono keeps only the head of its response.
  if (isUnsupported || method === 'HEAD') await response.body?.cancel()
  // vLLM has no such route.
  if (isUnsupported)
    throw new Failure('method_not_allowed', 'The engine of this response does not support deletion.', {
      headers: { allow: 'GET, HEAD' },
    })
  if (method === 'DELETE' && response.ok) await parts.storedResponses.forget(responseId)
  return response
}

interface StoredResponseRequest {
  readonly stored: StoredResponse
  readonly caller: Caller
  readonly path: string
}

/** A request for which the engine computes nothing. */
const emptyAdmission = (id: string, caller: Caller, model: Pick<Admission, 'model' | 'adapter'>): RequestAdmission => ({
  version: PAYLOAD_VERSION,
  id,
  ...model,
  promptTokens: 0,
  tokenSource: 'bytes',
  blocks: new Uint32Array(0),
  session: null,
  priority: 0,
  expectedOutputTokens: 0,
  tenant: caller.tenant,
  overrides: null,
  hints: null,
  unsplittable: 'nothing is computed',
  encodeItems: 0,
})

function exchangeWithoutBody(
  { config, engineHeaders, ports, models }: StoredResponseParts,
  incoming: RequestContext,
  { stored, caller, path }: StoredResponseRequest,
): Exchange {
  const route = routeOf(models, stored, caller)
  const { model, adapter } = engineModel(stored.model, route.pool)
  const isHead = incoming.request.method === 'HEAD'
  const stream = !isHead && new URLSearchParams(incoming.query).get('stream') === 'true'
  const { id, requestId, receivedAt } = incoming
  return {
    ...plainExchange,
    id,
    requestId,
    receivedAt,
    method: isHead ? 'GET' : (incoming.request.method as Exchange['method']),
    protocol: responses,
    requestedModel: stored.model,
    path: path + incoming.query,
    headers: headersForEngine(incoming.request.headers, incoming.requestId, engineHeaders, true),
    source: { body: () => null, admission: () => emptyAdmission(id, caller, { model, adapter }) },
    stream,
    observe: !stream,
    writeMs: config.limits.writeMs,
    heartbeatMs: stream ? config.limits.heartbeatMs : 0,
    routes: [route],
    configVersion: config.version,
    pinned: stored,
    stages: { edge: ports.now() - incoming.receivedAt },
    clientHeaders: incoming.cors ?? [],
    // With the client's socket the platform would write the response itself, and it could not be read here.
    scope: stream || incoming.scope.delivery !== undefined ? incoming.scope : { ...incoming.scope, client: null },
    signal: incoming.request.signal,
    record: openRecord({ id, requestId, receivedAt, path: incoming.path, model: route.pool.model, stream }),
  }
}
