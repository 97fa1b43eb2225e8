import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { toPoolConfig } from '../../src/config/to-pool-config.ts'
import type { Config } from '../../src/config.ts'
import { createGateway } from '../../src/gateway.ts'
import { memoryPools } from '../../src/platform/node/memory-pools.ts'
import { OriginError, type OriginAnswer, type OriginRequest } from '../../src/ports/origin.ts'
import type { RelayResult, RelayOptions } from '../../src/ports/relay.ts'
import type { Ports } from '../../src/ports.ts'
import type { RequestScope } from '../../src/ports/request-scope.ts'
import { unusedPorts } from '../kit/unused-ports.ts'

/** Two configurations of one pool: engines come and go, and change roles. */
const fleets = [
  { p0: 'prefill', p1: 'prefill', d0: 'decode', d1: 'decode', e0: 'encode', a0: 'any' },
  { p1: 'decode', d1: 'decode', n0: 'prefill', n1: 'any', e1: 'encode' },
] as const

const configs = fleets.map((fleet, at): Config => {
  const engines = Object.entries(fleet).map(([id, role]) => ({ id, role, url: `http://10.0.0.1:8000/${id}` }))
  const pool = {
    model: 'm',
    split: { connector: 'nixl', mode: 'always' },
    circuit: { failures: 2 },
    retry: { min_per_s: 5 },
    engines,
  }
  return parseConfig(
    { version: at + 1, limits: { heartbeat_ms: 0 }, clusters: [{ id: 'c', pools: [pool] }] },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
})

type Meeting =
  | { readonly fails: OriginError['failure'] }
  | { readonly status: number; readonly body?: string; readonly end?: RelayResult['end'] }
  | 'hangs'

const HANDED =
  '{"kv_transfer_params":{"remote_block_ids":[1],"remote_engine_id":"x","remote_host":"h","remote_port":1},"choices":[{"text":"x"}]}'
const meeting = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.constantFrom<Meeting>(
      { status: 200, body: HANDED },
      { status: 200, body: HANDED, end: 'engine_truncated' },
      { status: 200, body: HANDED, end: 'client_gone' },
    ),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom<Meeting>(
      { status: 500 },
      { status: 503, body: 'currently busy' },
      { status: 400 },
      { status: 200, body: 'garbage' },
      { status: 401 },
      'hangs',
    ),
  },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom<OriginError['failure']>('connect', 'reset', 'first_byte_timeout')
      .map((fails): Meeting => ({ fails })),
  },
)

interface ClientRequest {
  readonly edge: number
  readonly stream: boolean
  readonly items: number
  readonly waits: boolean
  readonly meetings: readonly Meeting[]
}

const clientRequest = fc.record({
  edge: fc.nat(1),
  stream: fc.boolean(),
  items: fc.nat(2),
  waits: fc.boolean(),
  meetings: fc.array(meeting, { minLength: 1, maxLength: 6 }),
})

const turn = () => new Promise((resolve) => setTimeout(resolve, 0))

class Storm {
  version = 1
  readonly #work: Promise<unknown>[] = []
  readonly #clients: AbortController[] = []
  /** Node follows a client's signal by a weak reference: an unreferenced request would never see its abort. */
  readonly #requests: Request[] = []
  readonly #now = 1_800_000_000_000
  #ids = 0
  readonly clusters = memoryPools({
    source: () => ({
      version: this.version,
      pool: toPoolConfig(configs[this.version - 1]!.clusters[0]!, configs[this.version - 1]!.clusters[0]!.pools[0]!),
    }),
    now: () => this.#now,
    random: () => 0.5,
  })

  /** Starts a request, and awaits its end if it `waits`. */
  async begin({ edge, stream, items, waits, meetings }: ClientRequest): Promise<void> {
    const client = new AbortController()
    this.#clients.push(client)
    const gateway = createGateway(configs[edge]!, this.#ports(meetings))
    const images = Array.from({ length: items }, (_, at) => ({
      type: 'image_url',
      image_url: { url: `https://x/${this.#ids}/${at}` },
    }))
    const body = JSON.stringify({
      model: 'm',
      stream,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'hello '.repeat(200) }, ...images] }],
    })
    const request = new Request('http://localhost/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
      signal: client.signal,
    })
    this.#requests.push(request)
    const scope: RequestScope = { background: (work) => void this.#work.push(work), client: null, remoteAddress: null }
    const answer = gateway.fetch(request, scope).then((response) => response.text().catch(() => ''))
    this.#work.push(answer)
    for (let at = 0; at < (waits ? 12 : 2); at++) await turn()
  }

  /** Disconnects all waiting clients. */
  async end(): Promise<void> {
    for (const client of this.#clients) client.abort('left')
    while (this.#work.length > 0) await this.#work.pop()
    await turn()
    while (this.#work.length > 0) await this.#work.pop()
  }

  #ports(meetings: readonly Meeting[]): Ports {
    let met = 0
    const silent = () => undefined
    return {
      ...unusedPorts,
      pool: this.clusters.pool,
      origin: { send: (request) => send(request, meetings[met++ % meetings.length]!) },
      now: () => this.#now,
      random: () => 0.5,
      newId: () => `id-${++this.#ids}`,
      log: { debug: silent, info: silent, warn: silent, error: silent },
      timers: { set: () => ({ cancel: silent }) },
    }
  }
}

async function send(request: OriginRequest, meets: Meeting): Promise<OriginAnswer> {
  await turn()
  if (request.signal.aborted) throw request.signal.reason
  if (meets === 'hangs')
    return new Promise((_, reject) =>
      request.signal.addEventListener('abort', () => reject(request.signal.reason as Error)),
    )
  if ('fails' in meets) throw new OriginError(meets.fails, 'no')
  const { status, body = '{}', end = 'complete' } = meets
  const bytes = new TextEncoder().encode(body)
  return {
    status,
    headers: ['content-type', 'application/json'],
    sse: false,
    firstByte: async () => undefined,
    firstBytes: () => bytes,
    fault: () => null,
    read: async () => bytes,
    reader: () => ({ read: async () => null, cancel: () => {} }),
    discard: () => undefined,
    pass(relay: RelayOptions) {
      setTimeout(
        () =>
          relay.settled({
            end,
            failure: end === 'engine_truncated' ? 'reset' : null,
            events: 3,
            usage: null,
            bytes: bytes.length,
          }),
        0,
      )
      return new Response(body, { status })
    },
  }
}

it('a storm of failing legs, disconnecting clients and a changing fleet leaves no booking and no removed engine', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(clientRequest, { minLength: 1, maxLength: 10 }), fc.nat(10), async (requests, change) => {
      const storm = new Storm()
      for (const [at, one] of requests.entries()) {
        if (at === change) storm.version = 2
        // An edge cannot have a configuration that does not exist yet.
        await storm.begin({ ...one, edge: Math.min(one.edge, storm.version - 1) })
      }
      await storm.end()
      const digest = await storm.clusters.pool('c', 'm').digest()
      storm.clusters.close()
      expect(digest.bookings).toBe(0)
      expect(
        digest.engines.map(({ id, requests: held, activeBlocks, queuedPrefillS }) => ({
          id,
          held,
          activeBlocks,
          queuedPrefillS,
        })),
      ).toEqual(
        Object.keys(fleets[digest.configVersion - 1]!)
          .map((id) => ({ id, held: 0, activeBlocks: 0, queuedPrefillS: 0 }))
          .sort((a, b) => orderIn(digest.engines, a.id) - orderIn(digest.engines, b.id)),
      )
    }),
    { numRuns: 60 },
  )
}, 120_000)

const orderIn = (engines: readonly { readonly id: string }[], id: string): number =>
  engines.findIndex((one) => one.id === id)
