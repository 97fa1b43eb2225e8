/** Semantic canary: repeats a share of greedy requests on two engines of their pool, and compares the answers. */
import { concatBytes } from '../../core/bytes.ts'
import { answersAgree } from '../../core/canary/answers-agree.ts'
import type { PoolSettings } from '../../config.ts'
import { type Comparison, isGreedy } from '../../protocols/comparison.ts'
import type { Exchange } from '../exchange.ts'
import { poolOf, type PoolRoute } from '../pool-route.ts'
import { pairFor } from './idle-pair.ts'
import { tokensFrom } from './repeated-request.ts'
import type { UpstreamPorts } from '../upstream-ports.ts'

/** Longest request that is repeated, bytes: it stays in memory until its answer begins. */
const MAX_BODY_BYTES = 256 * 1024

/** Age at which a comparison counts as lost, ms: on Workers, its request may have ended. */
const LOST_MS = 60_000

type Forward = (exchange: Exchange) => Promise<Response>

/** A request that will be repeated. */
interface Copy {
  readonly route: PoolRoute
  readonly comparison: Comparison
  readonly body: Uint8Array
}

/** Adds the canary to the forwarder. A pool has one comparison at a time. */
export function withCanary(next: Forward, ports: UpstreamPorts): Forward {
  const startedAt = new Map<PoolSettings, number>()
  const isBusy = (pool: PoolSettings): boolean => ports.now() - (startedAt.get(pool) ?? -Infinity) < LOST_MS
  return async (exchange) => {
    const copy = copyOf(exchange, ports, isBusy)
    const response = await next(exchange)
    if (copy === null || response.status !== 200 || isBusy(copy.route.pool)) return response
    const { pool } = copy.route
    startedAt.set(pool, ports.now())
    exchange.scope.background(compared(copy, exchange, ports).finally(() => startedAt.delete(pool)))
    return response
  }
}

/** null: the request is not repeated. */
function copyOf(exchange: Exchange, ports: UpstreamPorts, isBusy: (pool: PoolSettings) => boolean): Copy | null {
  const { routes, protocol, source, pinned } = exchange
  const { json } = source
  const route = routes.find(({ pool }) => pool.canary !== null)
  const { comparison } = protocol
  if (route === undefined || comparison === undefined || json === undefined || pinned !== null) return null
  if (ports.random() >= route.pool.canary!.share || isBusy(route.pool) || !isGreedy(json)) return null
  const parts = source.body(route, comparison.edit)
  if (parts === null || parts.reduce((sum, { length }) => sum + length, 0) > MAX_BODY_BYTES) return null
  // A copy: the memory of the client's body is used again when its answer begins. A single piece was written anew.
  return { route, comparison, body: concatBytes(parts) }
}

/** Never rejects. */
async function compared({ route, comparison, body }: Copy, exchange: Exchange, ports: UpstreamPorts): Promise<void> {
  const { cluster, engine, prefillEngine } = exchange.record
  if (cluster !== route.cluster.id || engine === null || prefillEngine !== null) return
  const pool = poolOf(ports, route)
  try {
    const pair = pairFor(route, engine, await pool.digest(), ports.random)
    if (pair === null) return
    const request = { path: exchange.path, body }
    const answers = await Promise.all(pair.map((target) => tokensFrom(target, request, comparison, ports)))
    const [one, other] = answers
    if (one == null || other == null) return
    const signal = { engine: pair[0].id, other: pair[1].id, agree: answersAgree(one, other) }
    await pool.observe([{ kind: 'compared', ...signal }])
  } catch (error) {
    ports.log.debug('canary_failed', { cluster, model: route.pool.model, error })
  }
}
