/** Gateways that forward digests of each other, and regions whose digest must be ignored. */
import { beforeEach, describe, expect, it } from 'vitest'
import { packFilter } from '../../../src/core/prefix-index/prefix-filter.ts'
import { toSnakeCase } from '../../../src/snake-case.ts'
import { DigestCache } from '../../../src/origin/digests/digest-cache.ts'
import type { PoolRoute } from '../../../src/origin/pool-route.ts'
import { readRegionDigestResponse } from '../../../src/origin/regions/region-digest-response.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import type { OriginAnswer } from '../../../src/ports/origin.ts'
import type { RequestScope } from '../../../src/ports/request-scope.ts'
import { admission, engine } from '../../kit/pool-fixtures.ts'
import { costModel, digest, regionDigest } from './digest-fixtures.ts'

const OWN = '1.1 firstlight-0000000a'
const OTHER = '1.1 firstlight-0000000b'
interface DigestResponse {
  readonly cut?: number
  readonly regionDigests: readonly unknown[]
}

let now = 0
let responses: Record<string, DigestResponse>
let warned: [string, Readonly<Record<string, unknown>> | undefined][]
let background: Promise<unknown>[]
let cache: DigestCache
/** Duration of every response. */
let tookMs = 0

beforeEach(() => {
  now = 1_000_000
  tookMs = 0
  responses = {}
  warned = []
  background = []
  cache = open()
})

const open = (): DigestCache =>
  new DigestCache({
    ports: {
      now: () => now,
      random: () => 0.5,
      log: {
        debug: () => {},
        info: () => {},
        error: () => {},
        warn: (event, fields) => void warned.push([event, fields]),
      },
      pool: () =>
        ({
          digest: async () => digest,
          region: { digest: async () => regionDigest() },
        }) as Partial<PoolPort> as PoolPort,
      origin: {
        send: async ({ target }) => {
          now += tookMs
          const { cut = 7, regionDigests } = responses[target.id] ?? { regionDigests: [regionDigest({ via: [OTHER] })] }
          return {
            status: 200,
            read: async () => new TextEncoder().encode(JSON.stringify(toSnakeCase({ cut, regionDigests }))),
          } as Partial<OriginAnswer> as OriginAnswer
        },
      },
    },
    via: OWN,
    fingerprintOf: () => 7,
  })

const region = (id: string): PoolRoute =>
  ({
    cluster: { id, weight: 1, gateway: { rttMs: null, digestIntervalMs: 2_000 } },
    pool: { model: 'm', engines: [engine(id)], blockTokens: 64 },
    targets: new Map([[id, { kind: 'gateway', id, url: `http://${id}`, headers: [], binding: null }]]),
  }) as unknown as PoolRoute
const own = (id: string): PoolRoute =>
  ({
    cluster: { id, weight: 1, gateway: null },
    pool: { model: 'm', engines: [engine(id)], blockTokens: 64 },
    targets: new Map([[id, { kind: 'server', id, url: 'http://e', headers: [], binding: null }]]),
  }) as unknown as PoolRoute
const scope: RequestScope = { client: null, remoteAddress: null, background: (work) => void background.push(work) }

async function firsts(routes: readonly PoolRoute[], headers: readonly string[] = []): Promise<Record<string, number>> {
  const found: Record<string, number> = {}
  for (let i = 0; i < 200; i++) {
    const [first] = cache.order({
      routes,
      scope,
      headers,
      source: { admission: () => admission({ session: `s${i}` }) },
    })
    await Promise.all(background.splice(0))
    // Requests before the first digest do not count.
    if (i >= 50) found[first!.cluster.id] = (found[first!.cluster.id] ?? 0) + 1
  }
  return found
}

describe('gateways that name each other', () => {
  it('gateways that name each other do not count their own engines as the other’s', async () => {
    responses['b'] = {
      regionDigests: [
        regionDigest({ cluster: 'b', engines: 3, via: [OTHER] }),
        regionDigest({ cluster: 'a', engines: 50, via: [OWN, OTHER] }),
        regionDigest({ engines: 70, via: [OTHER, OWN, OTHER] }),
      ],
    }
    await cache.refresh(region('b'))
    expect(await cache.regionStatus(region('b'), false)).toMatchObject({ engines: 3 })
    expect(cache.regionDigests(region('b'), scope).map(({ cluster }) => cluster)).toEqual(['b'])
  })

  it('gateways that name each other do not query each other for models that only they have', async () => {
    responses['b'] = { regionDigests: [regionDigest({ via: [OWN, OTHER] })] }
    expect(await cache.refresh(region('b'))).toBe(false)
    expect(warned).toEqual([
      [
        'digest_unreachable',
        expect.objectContaining({ cluster: 'b', next: expect.stringContaining('leads back') as unknown }),
      ],
    ])
  })

  it('gateways that name each other send a request back to the other last of all', async () => {
    const routes = [own('a'), region('b')]
    expect((await firsts(routes))['b']).toBeGreaterThan(30)
    expect(await firsts(routes, ['via', `${OTHER}, ${OWN}`])).toEqual({ a: 150 })
    expect((await firsts(routes, ['via', `1.1 firstlight-0000000c, ${OWN}`]))['b']).toBeGreaterThan(30)
  })

  it('gateways that name each other leave a ring whose names change all the time', async () => {
    const via = Array.from({ length: 20 }, (_, at) => `1.1 firstlight-${at}`)
    responses['b'] = { regionDigests: [regionDigest({ via: [OTHER] }), regionDigest({ via })] }
    await cache.refresh(region('b'))
    expect(cache.regionDigests(region('b'), scope)).toHaveLength(1)
  })
})

describe('a gateway that forwards digests', () => {
  it('a gateway that forwards digests names the gateways on the way', async () => {
    responses['b'] = { regionDigests: [regionDigest({ via: [OTHER] })] }
    await cache.refresh(region('b'))
    expect(cache.regionDigests(region('b'), scope)[0]!.via).toEqual([OTHER])
  })

  it('a gateway that forwards digests omits prompts with another blocking fingerprint than its own', async () => {
    const prefixes = packFilter(Uint32Array.of(1, 2, 3))
    responses['b'] = { cut: 7, regionDigests: [regionDigest({ prefixes })] }
    responses['c'] = { cut: 8, regionDigests: [regionDigest({ prefixes })] }
    for (const id of ['b', 'c']) await cache.refresh(region(id))
    expect(['b', 'c'].map((id) => cache.regionDigests(region(id), scope)[0]!.prefixes)).toEqual([prefixes, ''])
  })

  it('a gateway that forwards digests without a digest yet does not count as one without engines', async () => {
    responses['b'] = { regionDigests: [] }
    const found = await firsts([own('a'), region('b')])
    expect(found['b']).toBeGreaterThan(30)
  })
})

describe('the list of regions', () => {
  it('the list of regions contains all of them, and a timer refreshes them in turn', async () => {
    const routes = Array.from({ length: 300 }, (_, at) => region(`r${at}`))
    for (const route of routes) await cache.refresh(route)
    expect(routes.filter((route) => cache.latest(route) === null)).toEqual([])
  })

  it('the list of regions has no negative distance after a clock was set back', async () => {
    responses['b'] = {
      regionDigests: [regionDigest({ soonest: { waitS: 1, costModel }, usual: { waitS: 1, costModel } })],
    }
    tookMs = -500
    for (const id of ['b', 'c']) await cache.refresh(region(id))
    expect(await firsts([region('b'), region('c')])).toEqual({ c: 150 })
  })

  it('the list of regions ignores impossible values', () => {
    const good = toSnakeCase(regionDigest()) as Record<string, unknown>
    const bad = [
      { engines: 1e-300 },
      { engines: 0.5 },
      { requests: 1.5 },
      { engines: 0 },
      { cluster: { toString: 1 } },
      { pool: 3 },
      { via: 'x' },
      { via: [1] },
      { via: Array(100).fill('x') },
      { via: ['x'.repeat(100)] },
    ]
    expect(
      bad.filter((one) => readRegionDigestResponse({ cut: 1, region_digests: [{ ...good, ...one }] }) !== null),
    ).toEqual([])
    expect(readRegionDigestResponse({ cut: 1, region_digests: [{ ...good, via: [OTHER] }] })).toMatchObject({
      regionDigests: [{ via: [OTHER] }],
    })
  })
})
