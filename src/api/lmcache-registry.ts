/**
 * The gateway as the coordinator of LMCache servers (`lmcache server --coordinator-url …/lmcache/CLUSTER
 * --coordinator-event-reporting`): the part of LMCache 0.5.6's HTTP API for registration, events and lookups.
 */
import * as z from 'zod/mini'
import { chunkHashes, hashHex, wireKeys } from '../core/lmcache/chunks.ts'
import { hostOf } from '../core/lmcache/registry.ts'
import type { RegistryAnswer, RegistryCall, CacheEvents, ChunkKeys } from '../core/lmcache/registry-call.ts'
import { Failure } from '../failure.ts'
import type { PoolRoute } from '../origin/exchange.ts'
import { readJson } from './body.ts'
import type { GatewayContext } from './context.ts'
import { answerJson, type RequestContext, idParam, REGISTRY_PREFIX } from './request-context.ts'
import { bearer, KeyStore } from './auth.ts'

/* Request bodies of LMCache 0.5.6, as far as the registry reads them. */

const text = z.string().check(z.maxLength(1024))
const count = z.int().check(z.gte(0))

export const objectKey = z.object({
  chunk_hash_hex: z.string().check(z.regex(/^(?:[0-9a-fA-F]{2}){1,64}$/)),
  model_name: text,
  kv_rank: z.int().check(z.gte(0), z.lte(0xffff_ffff)),
  object_group_id: z.optional(count),
  cache_salt: z.optional(text),
})
export type ObjectKey = z.infer<typeof objectKey>

export const registration = z.object({
  instance_id: z.optional(text),
  ip: z.string().check(z.regex(/\S/), z.maxLength(255)),
  http_port: z.int().check(z.gte(1), z.lte(65_535)),
  metadata: z.optional(z.record(text, text)),
  p2p_advertised_url: z.optional(text),
  mq_port: z.optional(z.int().check(z.gte(0), z.lte(65_535))),
})

const batchSchema = z.object({
  instance_id: text.check(z.minLength(1)),
  incarnation: count,
  seq: z.int().check(z.gte(1)),
  event_type: z.enum(['store', 'delete', 'access', 'config']),
  tier: z.enum(['l1', 'l2']),
  backend: text,
  entries: z.optional(z.array(z.object({ key: objectKey }))),
  shared: z.optional(z.boolean()),
})
export type Batch = z.infer<typeof batchSchema>
export const eventsBody = z.object({ batches: z.optional(z.array(batchSchema)) })

export const lookupBody = z.object({
  keys: z.optional(z.array(objectKey)),
  token_ids: z.optional(z.array(z.int().check(z.gte(0), z.lte(0xffff_ffff)))),
  model_name: z.optional(text),
  world_size: z.optional(z.int().check(z.gte(1), z.lte(255))),
  cache_salt: z.optional(text),
})

/** Decodes `kv_rank`: `world_size << 24 | global_rank << 16 | local_world_size << 8 | local_rank`. */
export const worldSizeOf = (kvRank: number): number => (kvRank >>> 24) & 0xff
export const globalRankOf = (kvRank: number): number => (kvRank >>> 16) & 0xff
export const kvRankOf = (worldSize: number, rank: number): number =>
  ((worldSize << 24) | (rank << 16) | (worldSize << 8) | rank) >>> 0

/**
 * Converts batches for a pool's registry. Omits entries of other models (null: the pool's model is unknown, so all)
 * and of further object groups, because lookups use only the first. An empty batch is kept for its number.
 */
export function batchesFor(batches: readonly Batch[], model: string | null): CacheEvents[] {
  return batches.map((batch) => {
    const keys = (batch.entries ?? [])
      .map(({ key }) => key)
      .filter((key) => (key.object_group_id ?? 0) === 0 && (model === null || key.model_name === model))
    const [first] = keys
    return {
      instance: batch.instance_id,
      incarnation: batch.incarnation,
      seq: batch.seq,
      kind: batch.event_type,
      level: batch.tier,
      backend: batch.backend,
      shared: batch.shared ?? false,
      worldSize: first === undefined ? 0 : worldSizeOf(first.kv_rank),
      ...chunkKeysOf(keys),
    }
  })
}

export function chunkKeysOf(keys: readonly ObjectKey[]): ChunkKeys {
  return {
    keys: wireKeys(
      keys.map(({ chunk_hash_hex: hash, model_name: model, cache_salt: salt = '' }) => ({ hash, model, salt })),
    ),
    ranks: Uint8Array.from(keys, ({ kv_rank: rank }) => globalRankOf(rank)),
  }
}

/* Authorisation for the registry. LMCache servers send no headers, so a token may be in the path. */

export interface RegistryPath {
  readonly cluster: string
  /** Token in the path; null: absent. */
  readonly token: string | null
  /** Rest of the path, with `:id` for an instance. */
  readonly route: string
  readonly id: string
  /** The path without the token, for logs. */
  readonly shown: string
}

const FIRST_WORDS: ReadonlySet<string> = new Set([
  'instances',
  'events',
  'directory',
  'healthz',
  'cache',
  'quota',
  'metrics',
])

/** `/lmcache/CLUSTER/…`, `/lmcache/CLUSTER/TOKEN/…`. */
export function readPath(path: string): RegistryPath {
  const [cluster = '', ...rest] = path.slice(REGISTRY_PREFIX.length).split('/').map(decoded)
  const [first = ''] = rest
  const hasToken = first !== '' && !FIRST_WORDS.has(first)
  const words = hasToken ? rest.slice(1) : rest
  const id = words[0] === 'instances' && words.length > 1 ? (words[1] ?? '') : ''
  const route = words.map((word, at) => (at === 1 && words[0] === 'instances' ? ':id' : word)).join('/')
  return {
    cluster: cluster.slice(0, 100),
    token: hasToken ? first : null,
    route,
    id,
    shown: `${REGISTRY_PREFIX}${cluster.slice(0, 63)}/${hasToken ? '…/' : ''}${words.join('/').slice(0, 100)}`,
  }
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

/**
 * Returns the registries of a cluster that this server may use. Fails with `not_found`, `key_missing` or `key_wrong`.
 */
export async function admitServer(
  context: GatewayContext,
  { request }: RequestContext,
  { cluster, token, id, route }: RegistryPath,
): Promise<readonly PoolRoute[]> {
  const kept = context.catalog.routes.filter((one) => one.cluster.id === cluster && one.pool.lmcache?.registry === true)
  const secret = token ?? bearer(request.headers)
  const opened = secret === null ? null : await ringOf(context).find(secret)
  const mine = kept.filter((one) => opened?.includes(one) === true)
  if (route.includes(':id')) idParam(id, 'instance')
  if (mine.length > 0) return mine
  if (token !== null)
    throw new Failure(
      'key_wrong',
      'This token opens no LMCache registry of this cluster. Compare it with lmcache.token.',
    )
  await context.authenticator.admin(request.headers)
  // If the admin API needs no key, a configured token is still required.
  const admitted = context.config.admin === null ? kept.filter(({ pool }) => pool.lmcache?.token === null) : kept
  if (admitted.length > 0) return admitted
  if (kept.length > 0)
    throw new Failure(
      'key_missing',
      'The token is missing. Send lmcache.token as `authorization: Bearer`, or as the path’s part after the cluster.',
    )
  throw new Failure(
    'not_found',
    `No pool of the cluster '${cluster}' is a registry. Set lmcache: { registry: true } on one.`,
  )
}

const rings = new WeakMap<GatewayContext, KeyStore<readonly PoolRoute[]>>()

/** Created at the first use, one per gateway. */
function ringOf(context: GatewayContext): KeyStore<readonly PoolRoute[]> {
  const known = rings.get(context)
  if (known !== undefined) return known
  const bySecret = new Map<string, PoolRoute[]>()
  for (const route of context.catalog.routes) {
    const secret = route.pool.lmcache?.registry === true ? route.pool.lmcache.token : null
    if (secret !== null) bySecret.set(secret, [...(bySecret.get(secret) ?? []), route])
  }
  const ring = new KeyStore<readonly PoolRoute[]>([...bySecret].map(([secret, holder]) => ({ secret, holder })))
  rings.set(context, ring)
  return ring
}

/** One request of an authorised LMCache server. */
interface Visit {
  readonly context: GatewayContext
  readonly incoming: RequestContext
  /** The pools of the request. */
  readonly routes: readonly PoolRoute[]
  /** Instance in the path; '' if absent. */
  readonly id: string
}

/** Maximum keys of one lookup by tokens. A body of ids and many ranks could create billions. */
const MOST_KEYS = 100_000

const handlers: Readonly<Record<string, (visit: Visit) => Response | Promise<Response>>> = {
  'GET healthz': ({ incoming }) => answerJson(incoming, { status: 'healthy' }),
  'GET instances': list,
  'POST instances': register,
  'PUT instances/:id/heartbeat': heartbeat,
  'DELETE instances/:id': leave,
  'POST events': events,
  'POST directory/lookup': lookup,
}

/** Handles everything below `/lmcache/`. */
export async function lmcacheRegistry(context: GatewayContext, incoming: RequestContext): Promise<Response> {
  const path = readPath(incoming.path)
  // The path may contain the token, which must not be logged.
  incoming.logFields['path'] = path.shown
  const routes = await admitServer(context, incoming, path)
  const handle = handlers[`${incoming.request.method} ${path.route}`]
  if (handle === undefined)
    throw new Failure('route_unknown', `The registry has no ${incoming.request.method} ${path.shown}.`)
  return handle({ context, incoming, routes, id: path.id })
}

async function register(visit: Visit): Promise<Response> {
  const { context, incoming } = visit
  const body = await read(visit, registration)
  if ('wrong' in body) return body.wrong
  const {
    ip: sent,
    http_port: httpPort,
    instance_id: wished = '',
    metadata = {},
    p2p_advertised_url: p2pUrl = '',
    mq_port: mqPort = 0,
  } = body.value
  const id = wished.trim() || `mp-${context.ports.newId()}`
  const ip = sent.trim()
  const host = ip.toLowerCase()
  const [answer] = await each(visit, ({ pool }) => {
    const engines = pool.engines.filter(({ url, lmcacheInstance }) => lmcacheInstance === null && hostOf(url) === host)
    return {
      kind: 'register',
      instance: { id, ip, httpPort, metadata, p2pUrl, mqPort },
      engines: engines.map((engine) => engine.id),
    }
  })
  const named = visit.routes.some(({ pool }) =>
    pool.engines.some(
      ({ url, lmcacheInstance }) => lmcacheInstance === id || (lmcacheInstance === null && hostOf(url) === host),
    ),
  )
  if (!named)
    context.ports.log.warn('lmcache_instance_unmatched', { instance: id, next: 'set lmcache_instance on its engines' })
  return answerJson(incoming, { instance_id: id, re_registered: answer?.kind === 'register' && answer.again })
}

async function heartbeat(visit: Visit): Promise<Response> {
  const { incoming, id } = visit
  const answers = await each(visit, () => ({ kind: 'heartbeat', id }))
  if (answers.every((answer) => answer.kind === 'heartbeat' && answer.known))
    return answerJson(incoming, { instance_id: id })
  return answerJson(incoming, { error: `unknown instance ${id}; re-register` }, 404)
}

async function leave(visit: Visit): Promise<Response> {
  const { incoming, id } = visit
  await each(visit, () => ({ kind: 'leave', id }))
  return new Response(null, { status: 204, headers: { 'x-request-id': incoming.requestId } })
}

async function list(visit: Visit): Promise<Response> {
  const [answer] = await each(visit, () => ({ kind: 'list' }))
  const instances = answer?.kind === 'list' ? answer.instances : []
  return answerJson(visit.incoming, {
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

async function events(visit: Visit): Promise<Response> {
  const body = await read(visit, eventsBody)
  if ('wrong' in body) return body.wrong
  const batches = body.value.batches ?? []
  const [answer] = await each(visit, (route) => ({
    kind: 'events',
    batches: batchesFor(batches, modelOf(visit, route)),
  }))
  const { applied, duplicates, stale } = answer?.kind === 'events' ? answer : { applied: 0, duplicates: 0, stale: 0 }
  return answerJson(visit.incoming, { applied, duplicates, stale })
}

async function lookup(visit: Visit): Promise<Response> {
  const body = await read(visit, lookupBody)
  if ('wrong' in body) return body.wrong
  const {
    keys = [],
    token_ids: tokens = [],
    model_name: model = '',
    world_size: worldSize = 1,
    cache_salt: salt = '',
  } = body.value
  if (keys.length > 0 === tokens.length > 0) return unfit(visit, "supply exactly one of 'keys' or 'token_ids'")
  if (tokens.length > 0 && model === '') return unfit(visit, "'model_name' is required with 'token_ids'")
  const named = keys[0]?.model_name ?? model
  const route = visit.routes.find((one) => modelOf(visit, one) === named) ?? visit.routes[0]!
  if ((tokens.length / route.pool.lmcache!.chunkTokens) * worldSize > MOST_KEYS)
    return unfit(visit, `more than ${MOST_KEYS} keys`)
  const asked = keys.length > 0 ? keys : keysOf(tokens, route, { model, worldSize, salt })
  const [answer] = await each({ ...visit, routes: [route] }, () => ({ kind: 'lookup', keys: chunkKeysOf(asked) }))
  const rows = answer?.kind === 'lookup' ? answer.rows : []
  const results = asked.map((key, at) => ({
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
  return answerJson(visit.incoming, { chunks: keys.length > 0 ? keys.length : asked.length / worldSize, results })
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

function modelOf({ context, incoming }: Visit, route: PoolRoute): string | null {
  return context.lookups.modelOf(route, (work) => incoming.scope.background(work))
}

/** Calls every pool of the request; each has an object of its own. */
function each({ context, routes }: Visit, call: (route: PoolRoute) => RegistryCall): Promise<RegistryAnswer[]> {
  return Promise.all(
    routes.map((route) => {
      const cluster = context.ports.cluster(route.cluster.id, route.pool.model)
      if (cluster.registry === undefined)
        throw new Failure('not_found', 'This gateway keeps its books where no registry can be.')
      return cluster.registry(call(route))
    }),
  )
}

type Body<Value> = { readonly value: Value } | { readonly wrong: Response }

/** Fails like any other body; JSON of another shape gets 422, as from the coordinator. */
async function read<Value>(visit: Visit, schema: z.ZodMiniType<Value>): Promise<Body<Value>> {
  const { request, memory } = visit.incoming
  const { json } = await readJson(request, { bodyBytes: visit.context.config.limits.bodyBytes }, { memory })
  const parsed = schema.safeParse(json)
  if (parsed.success) return { value: parsed.data }
  const issue = parsed.error.issues[0]
  return { wrong: unfit(visit, issue?.message ?? 'invalid', issue?.path) }
}

/** FastAPI's format of a rejected body. */
function unfit({ incoming }: Visit, message: string, path: readonly PropertyKey[] = []): Response {
  return answerJson(
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
