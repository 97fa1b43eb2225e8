/**
 * The gateway as the coordinator LMCache servers report to (`lmcache server --coordinator-url …/lmcache/CLUSTER
 * --coordinator-event-reporting`): what registration, events and lookups need of its HTTP surface, as 0.5.6 speaks it.
 */
import type * as z from 'zod/mini'
import { chunkHashes, hashHex } from '../../core/lmcache/chunk-hash.ts'
import { hostOf } from '../../core/lmcache/instance-map.ts'
import type { RegistryAnswer, RegistryCall } from '../../core/lmcache/registry-call.ts'
import { Failure } from '../../failure.ts'
import type { PoolRoute } from '../../origin/exchange.ts'
import { readJson } from '../body.ts'
import type { Door } from '../door.ts'
import { answerJson, type Incoming } from '../incoming.ts'
import { admitServer, readPath } from './access.ts'
import { batchesFor, chunkKeysOf } from './batches.ts'
import { eventsBody, kvRankOf, lookupBody, registration, type ObjectKey } from './wire.ts'

/** One request of an LMCache server that was let in. */
interface Visit {
  readonly door: Door
  readonly incoming: Incoming
  /** The pools it speaks of. */
  readonly routes: readonly PoolRoute[]
  /** Instance in the path; '' without one. */
  readonly id: string
}

/** Keys of one lookup by tokens: as many as the registry can hold. A body of ids and many ranks would make billions. */
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

/** Everything below `/lmcache/`. */
export async function lmcacheRegistry(door: Door, incoming: Incoming): Promise<Response> {
  const path = readPath(incoming.path)
  // The path may carry the token: it stands in no log.
  incoming.line['path'] = path.shown
  const routes = await admitServer(door, incoming, path)
  const handle = handlers[`${incoming.request.method} ${path.route}`]
  if (handle === undefined) throw new Failure('route_unknown', `The registry has no ${incoming.request.method} ${path.shown}.`)
  return handle({ door, incoming, routes, id: path.id })
}

async function register(visit: Visit): Promise<Response> {
  const { door, incoming } = visit
  const body = await read(visit, registration)
  if ('wrong' in body) return body.wrong
  const { ip: sent, http_port: httpPort, instance_id: wished = '', metadata = {}, p2p_advertised_url: p2pUrl = '', mq_port: mqPort = 0 } = body.value
  const id = wished.trim() || `mp-${door.ports.newId()}`
  const ip = sent.trim()
  const host = ip.toLowerCase()
  const [answer] = await each(visit, ({ pool }) => {
    const engines = pool.engines.filter(({ url, lmcacheInstance }) => lmcacheInstance === null && hostOf(url) === host)
    return { kind: 'register', instance: { id, ip, httpPort, metadata, p2pUrl, mqPort }, engines: engines.map((engine) => engine.id) }
  })
  const named = visit.routes.some(({ pool }) => pool.engines.some(({ url, lmcacheInstance }) => lmcacheInstance === id || (lmcacheInstance === null && hostOf(url) === host)))
  if (!named) door.ports.log.warn('lmcache_instance_unmatched', { instance: id, next: 'set lmcache_instance on its engines' })
  return answerJson(incoming, { instance_id: id, re_registered: answer?.kind === 'register' && answer.again })
}

async function heartbeat(visit: Visit): Promise<Response> {
  const { incoming, id } = visit
  const answers = await each(visit, () => ({ kind: 'heartbeat', id }))
  if (answers.every((answer) => answer.kind === 'heartbeat' && answer.known)) return answerJson(incoming, { instance_id: id })
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
  const [answer] = await each(visit, (route) => ({ kind: 'events', batches: batchesFor(batches, modelOf(visit, route)) }))
  const { applied, duplicates, stale } = answer?.kind === 'events' ? answer : { applied: 0, duplicates: 0, stale: 0 }
  return answerJson(visit.incoming, { applied, duplicates, stale })
}

async function lookup(visit: Visit): Promise<Response> {
  const body = await read(visit, lookupBody)
  if ('wrong' in body) return body.wrong
  const { keys = [], token_ids: tokens = [], model_name: model = '', world_size: worldSize = 1, cache_salt: salt = '' } = body.value
  if (keys.length > 0 === tokens.length > 0) return unfit(visit, "supply exactly one of 'keys' or 'token_ids'")
  if (tokens.length > 0 && model === '') return unfit(visit, "'model_name' is required with 'token_ids'")
  const named = keys[0]?.model_name ?? model
  const route = visit.routes.find((one) => modelOf(visit, one) === named) ?? visit.routes[0]!
  if ((tokens.length / route.pool.lmcache!.chunkTokens) * worldSize > MOST_KEYS) return unfit(visit, `more than ${MOST_KEYS} keys`)
  const asked = keys.length > 0 ? keys : keysOf(tokens, route, { model, worldSize, salt })
  const [answer] = await each({ ...visit, routes: [route] }, () => ({ kind: 'lookup', keys: chunkKeysOf(asked) }))
  const rows = answer?.kind === 'lookup' ? answer.rows : []
  const results = asked.map((key, at) => ({
    key: { object_group_id: 0, cache_salt: '', ...key },
    placements: (rows[at] ?? []).map(({ instance, incarnation, level, backend, shared }) => ({ instance_id: instance, incarnation, tier: level, backend, size_bytes: 0, shared })),
    token_ids: [],
    access_count: 0,
  }))
  return answerJson(visit.incoming, { chunks: keys.length > 0 ? keys.length : asked.length / worldSize, results })
}

/** One key for each rank of each complete chunk. */
function keysOf(tokens: readonly number[], { pool }: PoolRoute, { model, worldSize, salt }: { readonly model: string; readonly worldSize: number; readonly salt: string }): ObjectKey[] {
  const hashes = chunkHashes(tokens, pool.lmcache!.chunkTokens)
  return Array.from({ length: (hashes.length / 8) * worldSize }, (_, row) => ({
    chunk_hash_hex: hashHex(hashes, Math.floor(row / worldSize)),
    model_name: model,
    kv_rank: kvRankOf(worldSize, row % worldSize),
    cache_salt: salt,
  }))
}

function modelOf({ door, incoming }: Visit, route: PoolRoute): string | null {
  return door.lookups.modelOf(route, (work) => incoming.scope.background(work))
}

/** The same to every pool it speaks of: each has an object of its own. */
function each({ door, routes }: Visit, call: (route: PoolRoute) => RegistryCall): Promise<RegistryAnswer[]> {
  return Promise.all(
    routes.map((route) => {
      const cluster = door.ports.cluster(route.cluster.id, route.pool.model)
      if (cluster.registry === undefined) throw new Failure('not_found', 'This gateway keeps its books where no registry can be.')
      return cluster.registry(call(route))
    }),
  )
}

type Body<Value> = { readonly value: Value } | { readonly wrong: Response }

/** Fails as any body does; what is JSON of another shape is answered with 422, as the coordinator does. */
async function read<Value>(visit: Visit, schema: z.ZodMiniType<Value>): Promise<Body<Value>> {
  const { request, memory } = visit.incoming
  const { json } = await readJson(request, { bodyBytes: visit.door.config.limits.bodyBytes }, { memory })
  const parsed = schema.safeParse(json)
  if (parsed.success) return { value: parsed.data }
  const issue = parsed.error.issues[0]
  return { wrong: unfit(visit, issue?.message ?? 'invalid', issue?.path) }
}

/** FastAPI's shape of a refused body. */
function unfit({ incoming }: Visit, message: string, path: readonly PropertyKey[] = []): Response {
  return answerJson(incoming, { detail: [{ type: 'value_error', loc: ['body', ...path.map((step) => (typeof step === 'symbol' ? String(step) : step))], msg: message }] }, 422)
}
