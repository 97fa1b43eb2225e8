/** Regions that respond without a digest, and regions that are down. */
import { describe, expect, it } from 'vitest'
import type { PoolDigest } from '../../../src/core/contract/pool-digest.ts'
import { DIGEST_VERSION } from '../../../src/core/contract/region-digest.ts'
import { DigestCache } from '../../../src/origin/digests/digest-cache.ts'
import type { PoolRoute } from '../../../src/origin/pool-route.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import type { OriginAnswer } from '../../../src/ports/origin.ts'
import type { RequestScope } from '../../../src/ports/request-scope.ts'
import { admission, engine } from '../../kit/pool-fixtures.ts'

const regionDigest = {
  version: DIGEST_VERSION,
  cluster: 'c',
  pool: 'm',
  config_version: 1,
  engines: 2,
  requests: 5,
  queued: 0,
  confidence: 1,
  prefixes: '',
  soonest: { wait_s: 0, cost_model: { fixed_s: 0.01, per_token_s: 0, per_pair_s: 0 } },
  usual: { wait_s: 0, cost_model: { fixed_s: 0.01, per_token_s: 0, per_pair_s: 0 } },
}
type Answer = { readonly status: number; readonly body?: object } | 'away' | 'silent'

function open(fingerprintOf: { fingerprintOf?: () => number } = { fingerprintOf: () => 1 }) {
  let now = 1_000_000
  let seq = 0
  const world = {
    answer: { status: 200, body: { cut: 1, region_digests: [regionDigest] } } as Answer,
    warned: [] as string[],
    /** Requests for digests. */
    requests: 0,
    pass: (ms: number) => (now += ms),
  }
  const answer = (): OriginAnswer | Promise<OriginAnswer> => {
    world.requests += 1
    if (world.answer === 'silent') return new Promise(() => {})
    if (world.answer === 'away') throw new Error('nobody listens')
    const { status, body = {} } = world.answer
    return { status, read: async () => new TextEncoder().encode(JSON.stringify(body)) } as unknown as OriginAnswer
  }
  const digest = async (): Promise<PoolDigest> => ({
    version: 1,
    cluster: 'c',
    pool: 'm',
    configVersion: 1,
    seq: ++seq,
    epoch: 'e',
    at: now,
    bookings: 0,
    engines: [],
  })
  const ports = {
    origin: { send: async () => answer() },
    now: () => now,
    random: () => 0.5,
    log: { debug: () => {}, info: () => {}, warn: (event: string) => void world.warned.push(event), error: () => {} },
    pool: () => ({ digest }) as Partial<PoolPort> as PoolPort,
  }
  const cache = new DigestCache({ ports, ...fingerprintOf })
  return { world, cache }
}

const route = (id: string): PoolRoute =>
  ({
    cluster: { id, weight: 1, gateway: { rttMs: null, digestIntervalMs: 100 } },
    pool: { model: 'm', engines: [engine(id)], blockTokens: 64 },
    targets: new Map([[id, { kind: 'gateway', id, url: 'http://r', headers: [], binding: null }]]),
  }) as unknown as PoolRoute
const scope: RequestScope = { client: null, remoteAddress: null, background: () => {} }

describe('a region', () => {
  it('a region is not reported as incompatible by a gateway without fingerprints, as the probing thread is', async () => {
    const { world, cache } = open({})
    expect(await cache.refresh(route('paris'))).toBe(true)
    expect(world.warned).toEqual([])
    const other = open({ fingerprintOf: () => 2 })
    await other.cache.refresh(route('paris'))
    expect(other.world.warned).toEqual(['region_blocking_mismatch'])
    expect(await other.cache.regionStatus(route('paris'), false)).toMatchObject({ blockingMatch: false })
  })

  it.each<[string, Answer]>([
    ['does not let the key ask what it expects', { status: 403 }],
    [
      'tells in words of another version',
      { status: 200, body: { cut: 1, region_digests: [{ ...regionDigest, version: DIGEST_VERSION + 1 }] } },
    ],
  ])(
    'a region that %s is healthy, is logged once as silent, and is chosen as often as the others',
    async (_, answer) => {
      const { world, cache } = open()
      world.answer = answer
      expect(await cache.refresh(route('paris'))).toBe(true)
      expect(await cache.refresh(route('paris'))).toBe(true)
      expect(world.warned).toEqual(['region_digest_refused'])
      expect(await cache.regionStatus(route('paris'), true)).toBeNull()
      world.answer = 'away'
      await cache.refresh(route('tokyo'))
      expect(
        cache
          .order({ routes: [route('tokyo'), route('paris')], scope, source: { admission: () => admission() } })
          .map(({ cluster }) => cluster.id),
      ).toEqual(['paris', 'tokyo'])
    },
  )

  it('a region that stops exporting loses its last regionDigest, and is logged again after it has exported', async () => {
    const { world, cache } = open()
    await cache.refresh(route('paris'))
    expect(await cache.regionStatus(route('paris'), false)).toMatchObject({ engines: 2, requests: 5 })
    for (let again = 0; again < 2; again++) {
      world.answer = { status: 403 }
      await cache.refresh(route('paris'))
      expect(await cache.regionStatus(route('paris'), false)).toBeNull()
      world.answer = { status: 200, body: { cut: 1, region_digests: [regionDigest] } }
      await cache.refresh(route('paris'))
    }
    expect(world.warned).toEqual(['region_digest_refused', 'region_digest_refused'])
  })

  it.each<[string, Answer]>([
    ['does not serve the model', { status: 404 }],
    ['does not take the key', { status: 401 }],
    ['is behind a proxy that cannot reach it', { status: 502 }],
    ['is away', 'away'],
  ])('a region that %s is unreachable, which is logged once until it is back', async (_, answer) => {
    const { world, cache } = open()
    const healthy = world.answer
    for (const now of [answer, answer, healthy, answer]) {
      world.answer = now
      expect(await cache.refresh(route('paris'))).toBe(now === healthy)
    }
    expect(world.warned).toEqual(['digest_unreachable', 'digest_unreachable'])
  })

  it('a region that is killed is unreachable without engines in the first view after a second, by one request', async () => {
    const { world, cache } = open()
    await cache.refresh(route('paris'))
    world.answer = 'away'
    world.pass(999)
    expect(await cache.regionStatus(route('paris'), true)).toMatchObject({ reachable: true, engines: 2 })
    expect(world.requests).toBe(1)
    world.pass(1)
    expect(await cache.regionStatus(route('paris'), true)).toMatchObject({
      reachable: false,
      engines: 0,
      expectedTtftMs: null,
    })
    expect(world.requests).toBe(2)
  })

  it('a region whose engines are all unavailable is shown so in the first view after a second, and so is their return', async () => {
    const { world, cache } = open()
    await cache.refresh(route('paris'))
    const healthy = world.answer
    const empty = { ...regionDigest, engines: 0, soonest: null, usual: null }
    for (const [answer, engines] of [
      [{ status: 200, body: { cut: 1, region_digests: [{ ...empty }] } }, 0],
      [healthy, 2],
    ] as const) {
      world.answer = answer
      world.pass(1_000)
      expect(await cache.regionStatus(route('paris'), true)).toMatchObject({ reachable: true, engines })
    }
  })

  it('a region that accepts requests and does not answer is unreachable a second after the request, until it answers', async () => {
    const { world, cache } = open()
    await cache.refresh(route('paris'))
    const healthy = world.answer
    world.answer = 'silent'
    world.pass(1_000)
    expect(await cache.regionStatus(route('paris'), false)).toMatchObject({ reachable: true })
    world.pass(1_000)
    expect(await cache.regionStatus(route('paris'), false)).toMatchObject({ reachable: false, engines: 0 })
    world.answer = healthy
    world.pass(1_000)
    expect(await cache.regionStatus(route('paris'), true)).toMatchObject({ reachable: true, engines: 2 })
  })
})
