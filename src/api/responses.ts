import { PAYLOAD_VERSION } from '../core/contract/contract.ts'
import { openRecord } from '../core/reports/combine.ts'
import type { Exchange } from '../origin/exchange.ts'
import { headersForEngine } from '../origin/headers.ts'
import { Failure } from '../failure.ts'
import { engineModel } from './model-registry.ts'
import { assertAccepting, type GatewayContext } from './context.ts'
import type { StoredResponse, StoredResponses } from '../ports.ts'
import { idParam, type RequestContext } from './request-context.ts'
import type { Caller } from './auth.ts'
import { routeOf } from './inference.ts'
import { BoundedMap } from '../core/bounded-map.ts'

/**
 * Response id → engine that holds it. Bounded; the least recently used entry is dropped first. It is kept in memory
 * only, because engines lose their responses at a restart too.
 */
export class ResponseAffinity implements StoredResponses {
  readonly #responses: BoundedMap<string, StoredResponse>

  constructor(limit: number) {
    this.#responses = new BoundedMap(limit)
  }

  find(id: string, tenant: string): StoredResponse | null {
    const stored = this.#responses.get(id)
    if (stored === undefined || stored.tenant !== tenant) return null
    this.#responses.set(id, stored)
    return stored
  }

  keep(id: string, stored: StoredResponse): void {
    const known = this.#responses.get(id)
    if (known !== undefined && known.tenant !== stored.tenant) return
    this.#responses.set(id, stored)
  }

  forget(id: string): void {
    this.#responses.delete(id)
  }

  /** Least recently used first. */
  entries(): Iterable<readonly [id: string, stored: StoredResponse]> {
    return this.#responses
  }
}

/** GET, DELETE and cancel of a stored response; only the engine that holds it can answer. */
export async function storedResponse(
  context: GatewayContext,
  incoming: RequestContext,
  id: string | undefined,
  action: '' | '/cancel',
): Promise<Response> {
  const caller = await context.authenticator.caller(incoming.request.headers, false)
  incoming.logFields['tenant'] = caller.tenant
  assertAccepting(context)
  const responseId = idParam(id, 'response')
  const stored = await context.storedResponses.find(responseId, caller.tenant)
  if (stored === null) {
    throw new Failure(
      'not_found',
      `This gateway does not know response '${responseId}': it was never served here, is forgotten, or belongs ` +
        'to another key. Create it again with POST /v1/responses.',
    )
  }
  const response = await context.forward(
    exchangeWithoutBody(context, incoming, { stored, caller, path: `/v1/responses/${responseId}${action}` }),
  )
  const { method } = incoming.request
  const cannot = method === 'DELETE' && response.status === 405
  // For HEAD the engine gets a GET, and Hono keeps only the head of its response.
  if (cannot || method === 'HEAD') await response.body?.cancel()
  // vLLM has no such route.
  if (cannot)
    throw new Failure('method_not_allowed', 'The engine that holds this response cannot delete stored responses.', {
      headers: { allow: 'GET, HEAD' },
    })
  if (method === 'DELETE' && response.ok) await context.storedResponses.forget(responseId)
  return response
}

interface Call {
  readonly stored: StoredResponse
  readonly caller: Caller
  readonly path: string
}

function exchangeWithoutBody(
  context: GatewayContext,
  incoming: RequestContext,
  { stored, caller, path }: Call,
): Exchange {
  const route = routeOf(context, stored)
  const { model, adapter } = engineModel(stored.model, route.pool)
  const isHead = incoming.request.method === 'HEAD'
  const stream = !isHead && new URLSearchParams(incoming.query).get('stream') === 'true'
  const { id, requestId, receivedAt } = incoming
  return {
    id,
    requestId,
    receivedAt,
    method: isHead ? 'GET' : (incoming.request.method as Exchange['method']),
    path: path + incoming.query,
    headers: headersForEngine(incoming.request.headers, incoming.requestId, context.config),
    body: () => null,
    stream,
    observe: !stream,
    hideUsage: false,
    admission: () => ({
      version: PAYLOAD_VERSION,
      id: incoming.id,
      model,
      adapter,
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
    }),
    writeMs: context.config.limits.writeMs,
    heartbeatMs: stream ? context.config.limits.heartbeatMs : 0,
    routes: [route],
    configVersion: context.config.version,
    pinned: stored,
    stages: { edge: context.ports.now() - incoming.receivedAt },
    cors: incoming.cors,
    // With the client's socket the platform would write the response itself, and it could not be read here.
    scope: stream ? incoming.scope : { ...incoming.scope, client: null },
    signal: incoming.request.signal,
    record: openRecord({ id, requestId, receivedAt, path: incoming.path, model: route.pool.model, stream }),
  }
}
