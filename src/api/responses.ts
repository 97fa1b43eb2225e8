import { PAYLOAD_VERSION } from '../core/cluster/contract.ts'
import type { Exchange } from '../origin/exchange.ts'
import { headersForEngine } from '../origin/headers.ts'
import { Failure } from '../failure.ts'
import { engineModel } from './catalog.ts'
import { refuseDraining, type Door } from './door.ts'
import type { Holding } from '../ports.ts'
import { idParam, type Incoming } from './incoming.ts'
import type { Caller } from './keys.ts'
import { routeOf } from './proxy.ts'

/** GET, DELETE and cancel of a response that one engine holds: only that engine can answer. */
export async function heldResponse(door: Door, incoming: Incoming, id: string | undefined, action: '' | '/cancel'): Promise<Response> {
  const caller = await door.keeper.caller(incoming.request.headers, false)
  incoming.line['tenant'] = caller.tenant
  refuseDraining(door)
  const responseId = idParam(id, 'response')
  const holding = await door.held.find(responseId, caller.tenant)
  if (holding === null) {
    throw new Failure('not_found', `This gateway does not know response '${responseId}': it was never served here, is forgotten, or belongs to another key. Create it again with POST /v1/responses.`)
  }
  const response = await door.forward(bodiless(door, incoming, { holding, caller, path: `/v1/responses/${responseId}${action}` }))
  const { method } = incoming.request
  const cannot = method === 'DELETE' && response.status === 405
  // Asked by HEAD, the engine was asked as by GET: Hono keeps the head of its answer.
  if (cannot || method === 'HEAD') await response.body?.cancel()
  // vLLM has no such route.
  if (cannot) throw new Failure('method_not_allowed', 'The engine that holds this response cannot delete stored responses.', { headers: { allow: 'GET, HEAD' } })
  if (method === 'DELETE' && response.ok) await door.held.forget(responseId)
  return response
}

interface Call {
  readonly holding: Holding
  readonly caller: Caller
  readonly path: string
}

function bodiless(door: Door, incoming: Incoming, { holding, caller, path }: Call): Exchange {
  const route = routeOf(door, holding)
  const { model, adapter } = engineModel(holding.model, route.pool)
  const isHead = incoming.request.method === 'HEAD'
  const stream = !isHead && new URLSearchParams(incoming.query).get('stream') === 'true'
  return {
    id: incoming.id,
    requestId: incoming.requestId,
    receivedAt: incoming.receivedAt,
    method: isHead ? 'GET' : (incoming.request.method as Exchange['method']),
    path: path + incoming.query,
    headers: headersForEngine(incoming.request.headers, incoming.requestId, door.config.via),
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
    heartbeatMs: stream ? door.config.limits.heartbeatMs : 0,
    routes: [route],
    configVersion: door.config.version,
    pinned: holding,
    stages: { edge: door.ports.now() - incoming.receivedAt },
    cors: incoming.cors,
    // Without the client's socket nobody writes an answer to it that is to be looked at.
    scope: stream ? incoming.scope : { ...incoming.scope, client: null },
    signal: incoming.request.signal,
  }
}
