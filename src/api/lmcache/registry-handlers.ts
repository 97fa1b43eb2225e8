/**
 * The gateway as the coordinator of LMCache servers (`lmcache server --coordinator-url …/lmcache/CLUSTER
 * --coordinator-event-reporting`): the part of LMCache 0.5.6's HTTP API for registration, events and lookups.
 */
import type * as z from 'zod/mini'
import { chunkHashes, hashHex } from '../../core/lmcache/chunk-hashes.ts'
import { hostOf } from '../../core/lmcache/instance-map.ts'
import type { RegistryAnswer, RegistryCall } from '../../core/lmcache/registry-call.ts'
import type { Config } from '../../config.ts'
import type { CacheLookups } from '../../origin/lmcache/cache-lookups.ts'
import type { Ports } from '../../ports.ts'
import { Failure } from '../../failure.ts'
import { poolOf, type PoolRoute } from '../../origin/pool-route.ts'
import { readJson } from '../body/body.ts'
import { jsonResponse } from '../json-response.ts'
import { admitServer, type RegistryAccessParts } from './registry-access.ts'
import {
  batchesFor,
  chunkKeysOf,
  eventsBody,
  kvRankOf,
  lookupBody,
  type ObjectKey,
  registration,
} from './registry-bodies.ts'
import { readPath } from './registry-path.ts'
import type { RequestContext } from '../request-context.ts'

export interface RegistryParts extends RegistryAccessParts {
  readonly config: Pick<Config, 'admin' | 'limits'>
  readonly ports: Pick<Ports, 'pool' | 'log' | 'newId'>
  readonly lookups: Pick<CacheLookups, 'modelOf'> | null
}

/** One request of an authorised LMCache server. */
interface RegistryRequest {
  readonly parts: RegistryParts
  readonly incoming: RequestContext
  /** The pools of the request. */
  readonly routes: readonly PoolRoute[]
  /** Instance in the path; '' if absent. */
  readonly id: string
}

/** Maximum keys of one lookup by tokens. A body of ids and many ranks could create billions. */
const MAX_KEYS = 100_000

const handlers: Readonly<Record<string, (registryRequest: RegistryRequest) => Response | Promise<Response>>> = {
  'GET healthz': ({ incoming }) => jsonResponse(incoming, { status: 'healthy' }),
  'GET instances': list,
  'POST instances': register,
  'PUT instances/:id/heartbeat': heartbeat,
  'DELETE instances/:id': leave,
  'POST events': events,
  'POST directory/lookup': lookup,
}

/** Handles everything below `/lmcache/`. */
export async function lmcacheRegistry(parts: RegistryParts, incoming: RequestContext): Promise<Response> {
  const path = readPath(incoming.path)
  // The path may contain the token, which must not be logged.
  incoming.logFields.path = path.withoutToken
  const routes = await admitServer(parts, incoming, path)
  const handle = handlers[`${incoming.request.method} ${path.route}`]
  if (handle === undefined)
    throw new Failure('route_unknown', `The registry has no ${incoming.request.method} ${path.withoutToken}.`)
  return handle({ parts, incoming, routes, id: path.id })
}

async function register(registryRequest: RegistryRequest): Promise<Response> {
  const { parts, incoming } = registryRequest
  const body = await read(registryRequest, registration)
  if ('wrong' in body) return body.wrong
  const {
    ip: sent,
    http_port: httpPort,
    instance_id: requestedId = '',
    metadata = {},
    p2p_advertised_url: p2pUrl = '',
    mq_port: mqPort = 0,
  } = body.value
  const id = requestedId.trim() || `mp-${parts.ports.newId()}`
  const ip = sent.trim()
  const host = ip.toLowerCase()
  const [answer] = await callPools(registryRequest, ({ pool }) => {
    const engines = pool.engines.filter(({ url, lmcacheInstance }) => lmcacheInstance === null && hostOf(url) === host)
    return {
      kind: 'register',
      instance: { id, ip, httpPort, metadata, p2pUrl, mqPort },
      engines: engines.map((engine) => engine.id),
    }
  })
  const isMatched = registryRequest.routes.some(({ pool }) =>
    pool.engines.some(
      ({ url, lmcacheInstance }) => lmcacheInstance === id || (lmcacheInstance === null && hostOf(url) === host),
    ),
  )
  if (!isMatched)
    parts.ports.log.warn('lmcache_instance_unmatched', { instance: id, next: 'set lmcache_instance on its engines' })
  return jsonResponse(incoming, { instance_id: id, re_registered: answer?.kind === 'register' && answer.again })
}

async function heartbeat(registryRequest: RegistryRequest): Promise<Response> {
  const { incoming, id } = registryRequest
  const answers = await callPools(registryRequest, () => ({ kind: 'heartbeat', id }))
  if (answers.every((answer) => answer.kind === 'heartbeat' && answer.known))
    return jsonResponse(incoming, { instance_id: id })
  return jsonResponse(incoming, { error: `unknown instance ${id}; re-register` }, 404)
}

async function leave(registryRequest: RegistryRequest): Promise<Response> {
  const { incoming, id } = registryRequest
  await callPools(registryRequest, () => ({ kind: 'leave', id }))
  return new Response(null, { status: 204, headers: { 'x-request-id': incoming.requestId } })
}

async function list(registryRequest: RegistryRequest): Promise<Response> {
  const [answer] = await callPools(registryRequest, () => ({ kind: 'list' }))
  const instances = answer?.kind === 'list' ? answer.instances : []
  return jsonResponse(registryRequest.incoming, {
    instances: instances.map(({ id, ip, httpPort, registeredAt, metadata, p2pUrl, mqPort }) => ({
      instance_id: id,
      ip,
      http_port: httpPort,
      registration_time: registeredAt / 1000,
      metadata,
      p2p_advertised_url: p2pUrl,
      mq_port: mqPort,
    })),
  })
}

async function events(registryRequest: RegistryRequest): Promise<Response> {
  const body = await read(registryRequest, eventsBody)
  if ('wrong' in body) return body.wrong
  const batches = body.value.batches ?? []
  const [answer] = await callPools(registryRequest, (route) => ({
    kind: 'events',
    batches: batchesFor(batches, modelOf(registryRequest, route)),
  }))
  const { applied, duplicates, stale } = answer?.kind === 'events' ? answer : { applied: 0, duplicates: 0, stale: 0 }
  return jsonResponse(registryRequest.incoming, { applied, duplicates, stale })
}

async function lookup(registryRequest: RegistryRequest): Promise<Response> {
  const body = await read(registryRequest, lookupBody)
  if ('wrong' in body) return body.wrong
  const {
    keys = [],
    token_ids: tokens = [],
    model_name: model = '',
    world_size: worldSize = 1,
    cache_salt: salt = '',
  } = body.value
  if (keys.length > 0 === tokens.length > 0)
    return invalidBody(registryRequest, "supply exactly one of 'keys' or 'token_ids'")
  if (tokens.length > 0 && model === '')
    return invalidBody(registryRequest, "'model_name' is required with 'token_ids'")
  const named = keys[0]?.model_name ?? model
  const route =
    registryRequest.routes.find((one) => modelOf(registryRequest, one) === named) ?? registryRequest.routes[0]!
  if ((tokens.length / route.pool.lmcache!.chunkTokens) * worldSize > MAX_KEYS)
    return invalidBody(registryRequest, `more than ${MAX_KEYS} keys`)
  const requestedKeys = keys.length > 0 ? keys : keysOf(tokens, route, { model, worldSize, salt })
  const [answer] = await callPools({ ...registryRequest, routes: [route] }, () => ({
    kind: 'lookup',
    keys: chunkKeysOf(requestedKeys),
  }))
  const rows = answer?.kind === 'lookup' ? answer.rows : []
  const results = requestedKeys.map((key, at) => ({
    key: { object_group_id: 0, cache_salt: '', ...key },
    placements: (rows[at] ?? []).map(({ instance, incarnation, level, backend, shared }) => ({
      instance_id: instance,
      incarnation,
      tier: level,
      backend,
      size_bytes: 0,
      shared,
    })),
    token_ids: [],
    access_count: 0,
  }))
  return jsonResponse(registryRequest.incoming, {
    chunks: keys.length > 0 ? keys.length : requestedKeys.length / worldSize,
    results,
  })
}

/** One key for each rank of each complete chunk. */
function keysOf(
  tokens: readonly number[],
  { pool }: PoolRoute,
  { model, worldSize, salt }: { readonly model: string; readonly worldSize: number; readonly salt: string },
): ObjectKey[] {
  const hashes = chunkHashes(tokens, pool.lmcache!.chunkTokens)
  return Array.from({ length: (hashes.length / 8) * worldSize }, (_, row) => ({
    chunk_hash_hex: hashHex(hashes, Math.floor(row / worldSize)),
    model_name: model,
    kv_rank: kvRankOf(worldSize, row % worldSize),
    cache_salt: salt,
  }))
}

function modelOf({ parts, incoming }: RegistryRequest, route: PoolRoute): string | null {
  return parts.lookups?.modelOf(route, (work) => incoming.scope.background(work)) ?? null
}

/** Calls every pool of the request; each has an object of its own. */
function callPools(
  { parts, routes }: RegistryRequest,
  callFor: (route: PoolRoute) => RegistryCall,
): Promise<RegistryAnswer[]> {
  return Promise.all(
    routes.map((route) => {
      const pool = poolOf(parts.ports, route)
      if (pool.registry === undefined)
        throw new Failure(
          'not_found',
          'The LMCache registry is not available in this deployment (pool state is not local). See docs/lmcache.md.',
        )
      return pool.registry.call(callFor(route))
    }),
  )
}

type BodyResult<Value> = { readonly value: Value } | { readonly wrong: Response }

/** Fails like any other body; JSON of another shape gets 422, as from the coordinator. */
async function read<Value>(registryRequest: RegistryRequest, schema: z.ZodMiniType<Value>): Promise<BodyResult<Value>> {
  const { request, memory } = registryRequest.incoming
  const { json } = await readJson(request, { bodyBytes: registryRequest.parts.config.limits.bodyBytes }, { memory })
  const parsed = schema.safeParse(json)
  if (parsed.success) return { value: parsed.data }
  const issue = parsed.error.issues[0]
  return { wrong: invalidBody(registryRequest, issue?.message ?? 'invalid', issue?.path) }
}

/** FastAPI's format of a rejected body. */
function invalidBody({ incoming }: RegistryRequest, message: string, path: readonly PropertyKey[] = []): Response {
  return jsonResponse(
    incoming,
    {
      detail: [
        {
          type: 'value_error',
          loc: ['body', ...path.map((step) => (typeof step === 'symbol' ? String(step) : step))],
          msg: message,
        },
      ],
    },
    422,
  )
}
