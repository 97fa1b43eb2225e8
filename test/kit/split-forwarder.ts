/**
 * Dependencies of a forwarder with the real ledger: encode, prefill and decode engines that fail on request, or stop
 * and lose their blocks.
 */
import { chat } from '../../src/protocols/chat.ts'
import { openRecord } from '../../src/core/reports/request-record.ts'
import { toPoolConfig } from '../../src/config/to-pool-config.ts'
import { toTargets } from '../../src/config/engine-targets.ts'
import { parseConfig } from '../../src/config/parse.ts'
import type { EngineDigest } from '../../src/core/contract/pool-digest.ts'
import { Failure } from '../../src/failure.ts'
import { type Exchange, plainExchange } from '../../src/origin/exchange.ts'
import { passOverAll } from '../../src/origin/placement/placement-passes.ts'
import type { PoolRoute } from '../../src/origin/pool-route.ts'
import { forward } from '../../src/origin/forward.ts'
import { memoryPools } from '../../src/platform/node/memory-pools.ts'
import { OriginError, type OriginAnswer, type OriginRequest } from '../../src/ports/origin.ts'
import type { Ports } from '../../src/ports.ts'
import type { RelayOptions } from '../../src/ports/relay.ts'
import { admission } from './pool-fixtures.ts'
import { unusedPorts } from './unused-ports.ts'

export const ENGINES = ['e0', 'e1', 'p0', 'p1', 'd0', 'd1'] as const
const ROLES = { e: 'encode', p: 'prefill', d: 'decode' } as const
export type EngineId = (typeof ENGINES)[number]

/** Behaviour of an engine for every request. */
export type Manner = 'ok' | 'connect' | 'reset' | 'first_byte_timeout' | 500 | 503 | 302 | 400

function routeOf(engines: readonly EngineId[]): PoolRoute {
  const pool = {
    model: 'm',
    policy: 'round_robin',
    retry: { share: 1, min_per_s: 1000 },
    split: { encode: { cached_items: 0, concurrency: 2 } },
    engines: engines.map((id) => ({ id, url: `http://${id}`, role: ROLES[id[0] as 'e'] })),
  }
  const {
    clusters: [cluster],
  } = parseConfig(
    { clusters: [{ id: 'c', pools: [pool] }] },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
  return { cluster: cluster!, pool: cluster!.pools[0]!, targets: toTargets(cluster!.pools[0]!) }
}

const image = (url: string) => ({ type: 'image_url', image_url: { url } })

export class SplitForwarder {
  readonly sent: EngineId[] = []
  readonly client = new AbortController()
  /** Stopped engines send no response, and their blocks are lost. */
  readonly dead = new Set<EngineId>()
  /** Decode engines respond when this resolves. */
  decoding: Promise<void> = Promise.resolve()
  readonly #manners: Readonly<Partial<Record<EngineId, Manner>>>
  readonly #leavesAt: number
  readonly #background: Promise<unknown>[] = []
  readonly #route: PoolRoute
  readonly #clusters: ReturnType<typeof memoryPools>
  #ids = 0

  /** Number of the request to an engine at which the client disconnects; 0: never. */
  constructor(
    manners: Readonly<Partial<Record<EngineId, Manner>>>,
    leavesAt = 0,
    engines: readonly EngineId[] = ENGINES,
  ) {
    this.#manners = manners
    this.#leavesAt = leavesAt
    this.#route = routeOf(engines)
    const { cluster, pool } = this.#route
    this.#clusters = memoryPools({
      source: () => ({ version: 1, pool: toPoolConfig(cluster, pool) }),
      now: () => 1000,
      random: () => 0.5,
    })
  }

  /** @param images items to encode */
  async run(images: readonly string[] = []): Promise<Response | Failure> {
    const ports: Ports = {
      ...unusedPorts,
      pool: (id: string, name: string) => this.#clusters.pool(id, name),
      origin: { send: (request: OriginRequest) => this.#send(request) },
      now: () => 1000,
      random: () => 0.5,
      newId: () => 'new',
      log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
    }
    const digests = {
      firstPass: ({ routes }: Exchange) => passOverAll(routes),
      latest: () => null,
      current: () => null,
      sent: () => null,
      fallback: () => null,
    }
    try {
      return await forward(this.#exchange(images), ports, digests)
    } catch (error) {
      if (error instanceof Failure) return error
      throw error
    }
  }

  async engines(): Promise<readonly EngineDigest[]> {
    while (this.#background.length > 0) await this.#background.pop()
    return (await this.#clusters.pool('c', 'm').digest()).engines
  }

  /** Number of open bookings; 0 is correct. Ends the test world. */
  async held(): Promise<number> {
    const engines = await this.engines()
    const { bookings } = await this.#clusters.pool('c', 'm').digest()
    this.#clusters.close()
    return bookings + engines.reduce((sum, one) => sum + one.requests + one.activeBlocks + one.queuedPrefillS, 0)
  }

  #exchange(images: readonly string[]): Exchange {
    const id = `id-${++this.#ids}`
    const json = { model: 'm', messages: [{ role: 'user', content: images.map(image) }] }
    return {
      ...plainExchange,
      id,
      requestId: 'label',
      clientHeaders: [],
      receivedAt: 900,
      method: 'POST',
      protocol: chat,
      path: '/v1/chat/completions',
      headers: ['x-request-id', 'label'],
      source: {
        json,
        body: (_route, edit) => [
          new TextEncoder().encode(
            JSON.stringify({
              ...json,
              ...Object.fromEntries(
                Object.entries(edit?.set ?? {}).map(([name, value]) => [name, JSON.parse(value) as unknown]),
              ),
            }),
          ),
        ],
        admission: () => ({
          ...admission({ id, model: 'm', promptTokens: 700, encodeItems: images.length }),
          configVersion: 1,
        }),
      },
      stream: true,
      observe: true,
      routes: [this.#route],
      configVersion: 1,
      heartbeatMs: 0,
      pinned: null,
      stages: {},
      scope: { background: (work) => void this.#background.push(work), client: null, remoteAddress: null },
      signal: this.client.signal,
      record: openRecord({
        id,
        requestId: id,
        receivedAt: 0,
        path: '/v1/chat/completions',
        model: 'm',
        stream: true,
      }),
    }
  }

  async #send({ target, method, body, signal }: OriginRequest): Promise<OriginAnswer> {
    if (signal.aborted) throw signal.reason
    const id = target.id as EngineId
    if (method === 'POST') this.sent.push(id)
    if (this.sent.length === this.#leavesAt) {
      this.client.abort(new Error('the client is gone'))
      throw signal.reason
    }
    // Lets other legs run.
    await (id.startsWith('d') ? this.decoding : Promise.resolve())
    if (signal.aborted) throw signal.reason
    if (this.dead.has(id)) throw new OriginError('connect', `http://${id} is dead`)
    const manner = this.#manners[id] ?? 'ok'
    if (typeof manner === 'string' && manner !== 'ok') throw new OriginError(manner, `http://${id} failed`)
    return answerOf(manner === 'ok' && this.#isOrphan(body) ? 500 : manner === 'ok' ? 200 : manner, id)
  }

  /** Whether the request fetches blocks from a stopped engine. */
  #isOrphan(body: OriginRequest['body']): boolean {
    if (body === null) return false
    const { kv_transfer_params: params } = JSON.parse(new TextDecoder().decode(body[0])) as {
      kv_transfer_params?: { remote_engine_id: EngineId | null }
    }
    return params !== undefined && params.remote_engine_id !== null && this.dead.has(params.remote_engine_id)
  }
}

function answerOf(status: number, id: string): OriginAnswer {
  const sse = status === 200 && id.startsWith('d')
  const params = {
    do_remote_prefill: true,
    remote_engine_id: id,
    remote_block_ids: [[1]],
    remote_host: id,
    remote_port: 5600,
  }
  const body = sse
    ? 'data: x\n\n'
    : JSON.stringify({ kv_transfer_params: params, usage: { prompt_tokens: 700, completion_tokens: 1 } })
  return {
    status,
    headers: [],
    sse,
    firstByte: async () => {},
    firstBytes: () => new TextEncoder().encode(body),
    fault: () => null,
    read: async () => new TextEncoder().encode(body),
    reader: () => ({ read: async () => null, cancel: () => {} }),
    pass: (relay: RelayOptions) => {
      queueMicrotask(() =>
        relay.settled({ end: 'complete', failure: null, events: 1, usage: null, bytes: body.length }),
      )
      return new Response(body, {
        status: relay.status,
        headers: Object.fromEntries(
          Array.from({ length: relay.headers.length / 2 }, (_, at) => [
            relay.headers[2 * at]!,
            relay.headers[2 * at + 1]!,
          ]),
        ),
      })
    },
    discard: () => {},
  }
}
