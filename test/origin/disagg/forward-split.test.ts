/** The whole walk of a staged request over engines that fail at will, with the books that ship. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toPoolConfig, toTargets } from '../../../src/config/pool.ts'
import { parseConfig } from '../../../src/config/parse.ts'
import { Failure } from '../../../src/failure.ts'
import type { Exchange, PoolRoute } from '../../../src/origin/exchange.ts'
import { forward } from '../../../src/origin/forward.ts'
import { memoryClusters } from '../../../src/platform/node/clusters.ts'
import { OriginError, type OriginAnswer, type OriginRequest, type Ports, type Reply } from '../../../src/ports.ts'
import { admission } from '../../contracts/cluster-fixtures.ts'

const ENGINES = ['e0', 'e1', 'p0', 'p1', 'd0', 'd1'] as const
const ROLES = { e: 'encode', p: 'prefill', d: 'decode' } as const
type EngineId = (typeof ENGINES)[number]

/** What an engine does with every request. */
type Manner = 'ok' | 'connect' | 'reset' | 'first_byte_timeout' | 500 | 503 | 302 | 400
const manners: readonly Manner[] = ['ok', 'connect', 'reset', 'first_byte_timeout', 500, 503, 302, 400]

const config = parseConfig(
  {
    clusters: [
      {
        id: 'c',
        pools: [
          {
            model: 'm',
            policy: 'round_robin',
            retry: { share: 1, min_per_s: 1000 },
            split: { encode: { cached_items: 0, concurrency: 2 } },
            engines: ENGINES.map((id) => ({ id, url: `http://${id}`, role: ROLES[id[0] as 'e'] })),
          },
        ],
      },
    ],
  },
  {},
  { defaultVersion: 1, defaultObserveShare: 1, listens: true },
)
const cluster = config.clusters[0]!
const pool = cluster.pools[0]!
const route: PoolRoute = { cluster, pool, targets: toTargets(pool) }
const image = (url: string) => ({ type: 'image_url', image_url: { url } })

class World {
  readonly sent: EngineId[] = []
  readonly client = new AbortController()
  readonly #manners: Readonly<Record<EngineId, Manner>>
  readonly #leavesAt: number
  readonly #background: Promise<unknown>[] = []
  readonly clusters = memoryClusters({ source: () => ({ version: 1, pool: toPoolConfig(cluster, pool) }), now: () => 1000, random: () => 0.5 })

  /** The client leaves at that request to an engine. */
  constructor(wanted: Readonly<Record<EngineId, Manner>>, leavesAt: number) {
    this.#manners = wanted
    this.#leavesAt = leavesAt
  }

  async run(): Promise<Response | Failure> {
    const ports = {
      cluster: (id: string, name: string) => this.clusters.cluster(id, name),
      origin: { send: (request: OriginRequest) => this.#send(request) },
      now: () => 1000,
      random: () => 0.5,
      newId: () => 'new',
      log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
    } as Partial<Ports> as Ports
    const digests = { order: ({ routes }: Exchange) => routes, latest: () => null, fallback: () => null }
    try {
      return await forward(this.#exchange(), ports, digests)
    } catch (error) {
      if (error instanceof Failure) return error
      throw error
    }
  }

  /** What the books still hold; 0 is right. */
  async held(): Promise<number> {
    while (this.#background.length > 0) await this.#background.pop()
    const { engines, bookings } = await this.clusters.cluster('c', 'm').digest()
    this.clusters.close()
    return bookings + engines.reduce((sum, one) => sum + one.requests + one.activeBlocks + one.queuedPrefillS, 0)
  }

  #exchange(): Exchange {
    const json = { model: 'm', messages: [{ role: 'user', content: [image('a'), image('b'), image('c')] }] }
    return {
      id: 'id',
      requestId: 'label',
      receivedAt: 900,
      method: 'POST',
      path: '/v1/chat/completions',
      headers: ['x-request-id', 'label'],
      body: () => [new TextEncoder().encode(JSON.stringify(json))],
      json,
      stream: true,
      observe: true,
      hideUsage: false,
      admission: () => ({ ...admission({ id: 'id', model: 'm', promptTokens: 700, encodeItems: 3 }), configVersion: 1 }),
      routes: [route],
      configVersion: 1,
      heartbeatMs: 0,
      pinned: null,
      stages: {},
      scope: { background: (work) => void this.#background.push(work), client: null, remoteAddress: null },
      signal: this.client.signal,
    }
  }

  async #send({ target, signal }: OriginRequest): Promise<OriginAnswer> {
    if (signal.aborted) throw signal.reason
    this.sent.push(target.id as EngineId)
    if (this.sent.length === this.#leavesAt) {
      this.client.abort(new Error('the client is gone'))
      throw signal.reason
    }
    // Other legs get their turn.
    await Promise.resolve()
    if (signal.aborted) throw signal.reason
    const manner = this.#manners[target.id as EngineId]
    if (typeof manner === 'string' && manner !== 'ok') throw new OriginError(manner, `http://${target.id} failed`)
    return answerOf(manner === 'ok' ? 200 : manner, target.id)
  }
}

function answerOf(status: number, id: string): OriginAnswer {
  const sse = status === 200 && id.startsWith('d')
  const params = { do_remote_prefill: true, remote_engine_id: id, remote_block_ids: [[1]], remote_host: id, remote_port: 5600 }
  const body = sse ? 'data: x\n\n' : JSON.stringify({ kv_transfer_params: params, usage: { prompt_tokens: 700, completion_tokens: 1 } })
  return {
    status,
    headers: [],
    sse,
    firstByte: async () => {},
    begun: () => new TextEncoder().encode(body),
    read: async () => new TextEncoder().encode(body),
    pass: (reply: Reply) => {
      queueMicrotask(() => reply.settled({ end: 'complete', failure: null, events: 1, usage: null, bytes: body.length }))
      return new Response(body, { status: reply.status, headers: Object.fromEntries(Array.from({ length: reply.headers.length / 2 }, (_, at) => [reply.headers[2 * at]!, reply.headers[2 * at + 1]!])) })
    },
    discard: () => {},
  }
}

const mannersOf = (kinds: readonly Manner[]) => fc.record(Object.fromEntries(ENGINES.map((id) => [id, fc.constantFrom(...kinds)])) as Record<EngineId, fc.Arbitrary<Manner>>)

describe('a staged request over engines that fail at will', () => {
  it('is served whenever a decode engine works, and leaves nothing booked', async () => {
    await fc.assert(
      fc.asyncProperty(mannersOf(manners.filter((one) => one !== 400)), async (wanted) => {
        const world = new World(wanted, 0)
        const end = await world.run()
        const works = (['d0', 'd1'] as const).filter((id) => wanted[id] === 'ok')
        if (works.length === 0) expect(end).toBeInstanceOf(Failure)
        else {
          expect((end as Response).status).toBe(200)
          expect(works).toContain((end as Response).headers.get('x-firstlight-engine'))
        }
        expect(await world.held()).toBe(0)
        // Nobody who failed is asked again but for the items that were under way at the same time.
        const times = (id: EngineId): number => (wanted[id] === 'ok' ? 0 : world.sent.filter((one) => one === id).length)
        for (const id of ['p0', 'p1'] as const) expect(times(id)).toBeLessThanOrEqual(1)
        // The last one to decode is asked once more where another's blocks may have been the fault.
        const decodes = [times('d0'), times('d1')].sort()
        expect(decodes[0]).toBeLessThanOrEqual(1)
        expect(decodes[1]).toBeLessThanOrEqual(typeof wanted.d0 === 'number' || typeof wanted.d1 === 'number' ? 2 : 1)
      }),
      { numRuns: 150 },
    )
  })

  it('leaves nothing booked when its client leaves at any moment, or an engine refuses it', async () => {
    await fc.assert(
      fc.asyncProperty(mannersOf(manners), fc.integer({ min: 1, max: 8 }), async (wanted, leavesAt) => {
        const world = new World(wanted, leavesAt)
        const end = await world.run()
        if (world.client.signal.aborted) {
          expect((end as Failure).reason).toBe('client_gone')
          expect(world.sent.length).toBe(leavesAt)
        }
        expect(await world.held()).toBe(0)
      }),
      { numRuns: 150 },
    )
  })
})
