/** An edge's use of region digests, with a clock that the test sets. */
import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { RegionDigest } from '../../../src/core/contract/region-digest.ts'
import { packFilter } from '../../../src/core/prefix-index/prefix-filter.ts'
import { toSnakeCase } from '../../../src/snake-case.ts'
import { DigestCache } from '../../../src/origin/digests/digest-cache.ts'
import type { PoolRoute } from '../../../src/origin/pool-route.ts'
import { readRegionDigestResponse } from '../../../src/origin/regions/region-digest-response.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import type { EngineTarget } from '../../../src/ports/engine-target.ts'
import type { OriginAnswer, OriginRequest } from '../../../src/ports/origin.ts'
import { admission } from '../../kit/pool-fixtures.ts'
import { costModel, digest, regionDigest } from './digest-fixtures.ts'

const FINGERPRINT = 77
const NAMES = ['paris', 'tokyo'] as const
type Name = (typeof NAMES)[number]

interface Region {
  status: number
  cut: number | null
  regionDigests: RegionDigest[]
  /** Round-trip time, ms. */
  wayMs: number
}

let now = 0
let regions: Record<Name, Region>
let requests: OriginRequest[]
let background: Promise<unknown>[]
let warned: [string, Readonly<Record<string, unknown>> | undefined][]
let cache: DigestCache

const waiting = (waitS: number): Partial<RegionDigest> => ({
  soonest: { waitS, costModel },
  usual: { waitS, costModel },
})

function answered(status: number, value: unknown): OriginAnswer {
  const body = new TextEncoder().encode(JSON.stringify(value))
  return { status, headers: [], sse: false, read: async () => body } as Partial<OriginAnswer> as OriginAnswer
}

beforeEach(() => {
  now = 1_000_000
  requests = []
  background = []
  warned = []
  regions = {
    paris: { status: 200, cut: FINGERPRINT, regionDigests: [regionDigest()], wayMs: 0 },
    tokyo: { status: 200, cut: FINGERPRINT, regionDigests: [regionDigest()], wayMs: 0 },
  }
  cache = new DigestCache({
    ports: {
      now: () => now,
      random: () => 0.5,
      log: {
        debug: () => {},
        info: () => {},
        error: () => {},
        warn: (event, fields) => void warned.push([event, fields]),
      },
      pool: () => ({ digest: async () => digest }) as Partial<PoolPort> as PoolPort,
      origin: {
        send: async (request) => {
          requests.push(request)
          const { status, cut, regionDigests, wayMs } = regions[request.target.id as Name]
          now += wayMs
          return answered(status, toSnakeCase({ cut, regionDigests }))
        },
      },
    },
    via: '1.1 firstlight-x',
    fingerprintOf: () => FINGERPRINT,
  })
})

function route(id: Name, gateway: object = { rttMs: 5, digestIntervalMs: 2_000 }): PoolRoute {
  const target: EngineTarget = {
    kind: 'gateway',
    id,
    url: `https://${id}.test`,
    headers: ['authorization', 'Bearer k'],
    binding: null,
  }
  return {
    cluster: { id, weight: 1, gateway },
    pool: { model: 'm', blockTokens: 64, tokenizer: null, engines: [] },
    targets: new Map([[id, target]]),
  } as unknown as PoolRoute
}

const scope = { client: null, remoteAddress: null, background: (work: Promise<unknown>) => void background.push(work) }
const prompt = (changes: Partial<Admission> = {}) =>
  admission({ promptTokens: 6_400, tokenSource: 'exact', blocks: new Uint32Array(0), ...changes })

async function order(
  asking: Admission = prompt(),
  routes: readonly PoolRoute[] = NAMES.map((id) => route(id)),
): Promise<Name[]> {
  const found = cache.order({ routes, scope, source: { admission: () => asking } })
  await Promise.all(background.splice(0))
  return found.map(({ cluster }) => cluster.id as Name)
}

/** Share of requests for which each region ranks first, over many sessions. */
async function share(asking: Partial<Admission> = {}): Promise<number> {
  await order()
  let firsts = 0
  for (let i = 0; i < 400; i++) if ((await order(prompt({ ...asking, session: `s${i}` })))[0] === 'paris') firsts++
  return firsts / 400
}

describe('an edge', () => {
  it('queries with the region’s key and its own name, after the response, and again when the digest is old', async () => {
    await order()
    expect(requests.map(({ method, path, target }) => `${method} ${target.url}${path}`)).toEqual(
      NAMES.map((id) => `GET https://${id}.test/v1/firstlight/digest?model=m`),
    )
    expect(requests[0]!.headers).toEqual(expect.arrayContaining(['via', '1.1 firstlight-x']))
    await order()
    expect(requests).toHaveLength(2)
    now += 2_001
    await order()
    expect(requests).toHaveLength(4)
  })

  it('an edge shares requests equally among equal regions', async () => {
    expect(await share()).toBeCloseTo(0.5, 0)
  })

  it('an edge shares conversations without session ids, although all have one system prompt', async () => {
    let paris = 0
    for (let talk = 0; talk < 400; talk++) {
      const blocks = Uint32Array.from({ length: 40 }, (_, at) =>
        Math.imul((at < 20 ? 0 : talk) * 65_537 + at + 1, 0x9e3779b1),
      )
      if ((await order(prompt({ session: null, blocks })))[0] === 'paris' && talk >= 200) paris++
    }
    expect(paris / 200).toBeCloseTo(0.5, 0)
    expect(paris / 200).toBeGreaterThan(0.3)
  })

  it('an edge avoids the region with waiting prompts', async () => {
    regions.paris.regionDigests = [regionDigest(waiting(0.5))]
    expect(await share()).toBeLessThan(0.05)
  })

  it('an edge chooses the nearer of two, and the farther if that is sooner', async () => {
    regions.paris.wayMs = 0
    const routes = [
      route('paris', { rttMs: 10, digestIntervalMs: 2_000 }),
      route('tokyo', { rttMs: 250, digestIntervalMs: 2_000 }),
    ]
    await order(prompt(), routes)
    expect((await order(prompt(), routes))[0]).toBe('paris')
    regions.paris.regionDigests = [regionDigest(waiting(2))]
    now += 2_001
    await order(prompt(), routes)
    expect((await order(prompt(), routes))[0]).toBe('tokyo')
  })

  it('an edge measures the distance if it is not configured, by the fastest response', async () => {
    const routes = NAMES.map((id) => route(id, { rttMs: null, digestIntervalMs: 2_000 }))
    for (const [paris, tokyo] of [
      [300, 300],
      [20, 250],
      [500, 400],
    ] as const) {
      regions.paris.wayMs = paris
      await cache.refresh(routes[0]!)
      regions.tokyo.wayMs = tokyo
      await cache.refresh(routes[1]!)
    }
    expect((await order(prompt({ promptTokens: 10 }), routes))[0]).toBe('paris')
  })

  it('an edge chooses the region with the prompt’s prefix', async () => {
    const blocks = Uint32Array.from({ length: 200 }, (_, at) => Math.imul(at + 1, 0x9e3779b1))
    regions.tokyo.regionDigests = [
      regionDigest({
        prefixes: packFilter(
          Uint32Array.from([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96], (depth) => blocks[2 * (depth - 1)]!),
        ),
      }),
    ]
    expect(await share({ blocks })).toBe(0)
    // A longer wait than the time to compute the whole prompt is not worth it.
    regions.tokyo.regionDigests = [{ ...regions.tokyo.regionDigests[0]!, ...waiting(3) }]
    now += 2_001
    expect(await share({ blocks })).toBe(1)
  })

  it('an edge ignores hashes with another blocking fingerprint, and logs it once', async () => {
    const blocks = Uint32Array.from({ length: 20 }, (_, at) => at * 7919)
    regions.tokyo.regionDigests = [regionDigest({ prefixes: packFilter(blocks.filter((_, at) => at % 2 === 0)) })]
    regions.tokyo.cut = FINGERPRINT + 1
    expect(await share({ blocks, session: null })).toBeGreaterThan(0.3)
    now += 2_001
    await order()
    expect(warned.map(([event, fields]) => [event, fields?.['cluster']])).toEqual([
      ['region_blocking_mismatch', 'tokyo'],
    ])
  })

  it('an edge counts the requests that it has sent since the last digest', async () => {
    await order()
    const session = 's1'
    const first = (await order(prompt({ session })))[0]!
    const expected = Array.from({ length: 4 }, () => cache.sent(route(first), prompt())!.predictedTtftMs)
    // 5 ms of network and 650 ms of work. Each request adds half of its work to the next one's wait, because there are
    // two engines.
    expect(expected).toEqual([655, 980, 1305, 1630].map((ms) => expect.closeTo(ms)))
    expect((await order(prompt({ session })))[0]).not.toBe(first)
    now += 2_001
    await order()
    expect((await order(prompt({ session })))[0]).toBe(first)
  })

  it('stops counting prompts after their first token, whatever the age of the digest', async () => {
    await order()
    const alone = cache.sent(route('paris'), prompt())!
    alone.end()
    // One after another: none waits for an earlier one.
    for (let i = 0; i < 3; i++) {
      const next = cache.sent(route('paris'), prompt())!
      expect(next.predictedTtftMs).toBeCloseTo(alone.predictedTtftMs)
      next.end()
    }
    const early = cache.sent(route('paris'), prompt())!
    now += 2_001
    await order()
    // Later digests no longer contain it.
    early.end()
    const [first, second] = [cache.sent(route('paris'), prompt())!, cache.sent(route('paris'), prompt())!]
    expect([first.predictedTtftMs, second.predictedTtftMs]).toEqual([expect.closeTo(655), expect.closeTo(980)])
    first.end()
    second.end()
    expect(cache.sent(route('paris'), prompt())!.predictedTtftMs).toBeCloseTo(655)
  })

  it('an edge tries a region without engines last, and one without a digest', async () => {
    regions.paris.regionDigests = [regionDigest({ engines: 0, soonest: null, usual: null })]
    expect(await share()).toBe(0)
    regions.paris = { status: 200, cut: FINGERPRINT, regionDigests: [regionDigest()], wayMs: 0 }
    regions.tokyo.status = 500
    now += 2_001
    expect(await share()).toBe(1)
  })

  it.each([
    [401, /`gateway.key`/, 'digest_unreachable'],
    [403, /edge: true/, 'region_digest_refused'],
    [404, /does not serve this model/, 'digest_unreachable'],
    [508, /leads back/, 'digest_unreachable'],
  ])('an edge names the next step for a %i', async (status, next, event) => {
    regions.tokyo.status = status
    await order()
    expect(warned).toEqual([
      [
        event,
        expect.objectContaining({
          cluster: 'tokyo',
          error: expect.stringContaining(String(status)),
          next: expect.stringMatching(next),
        }),
      ],
    ])
  })

  it('an edge gives old digests less weight', async () => {
    regions.paris.regionDigests = [regionDigest(waiting(0.2))]
    await order()
    const firsts = async () => {
      let count = 0
      for (let i = 0; i < 400; i++) {
        // No newer digest arrives.
        if (
          cache.order({
            routes: NAMES.map((id) => route(id)),
            scope: { ...scope, background: () => {} },
            source: { admission: () => prompt({ session: `s${i}` }) },
          })[0]!.cluster.id === 'paris'
        )
          count++
      }
      return count / 400
    }
    const fresh = await firsts()
    now += 60_000
    expect(await firsts()).toBeGreaterThan(fresh + 0.2)
  })

  it('an edge does not starve a region without samples: it gets the speed of the others', async () => {
    const slow = { waitS: 0, costModel: { ...costModel, perTokenS: 1e-2 } }
    regions.paris.regionDigests = [regionDigest({ confidence: 0, soonest: slow, usual: slow })]
    expect(await share()).toBeCloseTo(0.5, 0)
  })

  it('an edge forwards digests with the distance added', async () => {
    regions.paris.regionDigests = [regionDigest(waiting(0.5))]
    const way = route('paris', { rttMs: 100, digestIntervalMs: 2_000 })
    cache.regionDigests(way, scope)
    await Promise.all(background.splice(0))
    expect(cache.regionDigests(way, scope)[0]).toMatchObject({
      soonest: { waitS: expect.closeTo(0.6) },
      usual: { waitS: expect.closeTo(0.6) },
    })
  })
})

describe('the exported digest', () => {
  it('the exported digest is read as it was sent', () => {
    const regionDigests = [regionDigest(waiting(1.5)), regionDigest({ engines: 0, soonest: null, usual: null })]
    const sent = JSON.parse(JSON.stringify(toSnakeCase({ cut: FINGERPRINT, regionDigests })))
    expect(readRegionDigestResponse(sent)).toEqual({ fingerprint: FINGERPRINT, regionDigests })
  })

  it('the exported digest is checked like anything from outside', () => {
    const good = toSnakeCase(regionDigest()) as Record<string, unknown>
    const numbers = [-1, NaN, Infinity, '3', null, {}, 1e300]
    const bad = [
      null,
      [],
      'x',
      3,
      {},
      { region_digests: {} },
      { region_digests: [null] },
      { region_digests: [[]] },
      { region_digests: Array(65).fill(good) },
      { region_digests: [{ ...good, version: 2 }] },
      { region_digests: [{ ...good, prefixes: 3 }] },
      { region_digests: [{ ...good, soonest: null }] },
      { region_digests: [{ ...good, confidence: 2 }] },
      ...numbers.flatMap((value) =>
        ['engines', 'requests', 'queued', 'confidence'].map((key) => ({ region_digests: [{ ...good, [key]: value }] })),
      ),
      ...numbers.map((value) => ({
        region_digests: [
          { ...good, usual: { wait_s: value, cost_model: (good['usual'] as { cost_model: object }).cost_model } },
        ],
      })),
      ...numbers.flatMap((value) =>
        ['fixed_s', 'per_token_s', 'per_pair_s'].map((key) => ({
          region_digests: [
            {
              ...good,
              soonest: {
                wait_s: 0,
                cost_model: { ...(good['soonest'] as { cost_model: object }).cost_model, [key]: value },
              },
            },
          ],
        })),
      ),
    ]
    expect(bad.filter((one) => readRegionDigestResponse(one) !== null)).toEqual([])
    fc.assert(fc.property(fc.anything(), (given) => void readRegionDigestResponse(given)))
  })
})
