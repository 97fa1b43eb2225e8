import { beforeEach, expect, it } from 'vitest'
import type { PoolDigest } from '../../../src/core/contract/pool-digest.ts'
import { DigestCache } from '../../../src/origin/digests/digest-cache.ts'
import type { PoolRoute } from '../../../src/origin/pool-route.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import type { RequestScope } from '../../../src/ports/request-scope.ts'
import { admission, engine } from '../../kit/pool-fixtures.ts'

let now = 0
let requests: {
  readonly cluster: string
  readonly resolve: (digest: PoolDigest) => void
  readonly reject: (error: Error) => void
}[] = []
let background: Promise<unknown>[] = []

beforeEach(() => {
  now = 1_000_000
  requests = []
  background = []
})

const scope: RequestScope = { client: null, remoteAddress: null, background: (work) => background.push(work) }

function open(): DigestCache {
  const ports = {
    origin: { send: () => Promise.reject(new Error('nobody is asked')) },
    now: () => now,
    random: () => 0.5,
    log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
    pool: (cluster: string) => {
      const { promise, resolve, reject } = Promise.withResolvers<PoolDigest>()
      return { digest: () => (requests.push({ cluster, resolve, reject }), promise) } as Partial<PoolPort> as PoolPort
    },
  }
  return new DigestCache({ ports, freshMs: 2_000 })
}

function route(id: string): PoolRoute {
  return {
    cluster: { id, weight: 1, gateway: null },
    pool: { model: 'qwen', engines: [engine('a'), engine('b')] },
    targets: new Map(),
  } as unknown as PoolRoute
}

function exchange(...ids: string[]): Parameters<DigestCache['order']>[0] {
  return { routes: ids.map(route), scope, source: { admission: () => admission({ session: 's' }) } }
}

function digest(seq: number, changes: Partial<PoolDigest> = {}): PoolDigest {
  return {
    version: 1,
    cluster: 'c',
    pool: 'qwen',
    configVersion: 1,
    seq,
    epoch: 'e',
    at: seq,
    bookings: 0,
    engines: [],
    ...changes,
  }
}

async function answer(index: number, response: PoolDigest): Promise<void> {
  requests[index]!.resolve(response)
  await Promise.all(background)
}

it('the digest cache delays no request: it orders clusters at once and refreshes behind the response', () => {
  const cache = open()
  expect(cache.order(exchange('paris', 'tokyo'))).toHaveLength(2)
  expect(cache.latest(route('paris'))).toBeNull()
  expect(requests.map(({ cluster }) => cluster)).toEqual(['paris', 'tokyo'])
  expect(background).toHaveLength(2)
})

it('the digest cache refreshes once for concurrent requests, and again when the digest has aged', async () => {
  const cache = open()
  for (let index = 0; index < 5; index++) cache.order(exchange('paris'))
  expect(requests).toHaveLength(1)
  await answer(0, digest(1))
  now += 1_999
  cache.order(exchange('paris'))
  expect(requests).toHaveLength(1)
  now += 1
  cache.order(exchange('paris'))
  expect(requests).toHaveLength(2)
  expect(cache.latest(route('paris'))?.seq).toBe(1)
})

it('the digest cache refreshes again if a refresh was lost with its request', () => {
  const cache = open()
  cache.order(exchange('paris'))
  now += 9_999
  cache.order(exchange('paris'))
  expect(requests).toHaveLength(1)
  now += 1
  cache.order(exchange('paris'))
  expect(requests).toHaveLength(2)
})

it('the digest cache never replaces a digest by an older one', async () => {
  const cache = open()
  cache.order(exchange('paris'))
  now += 10_000
  cache.order(exchange('paris'))
  requests[1]!.resolve(digest(7))
  await background[1]
  await answer(0, digest(6))
  expect(cache.latest(route('paris'))?.seq).toBe(7)
})

it('the digest cache accepts the first digest of a new incarnation, whose numbers restart', async () => {
  const cache = open()
  cache.order(exchange('paris'))
  await answer(0, digest(7))
  now += 2_000
  cache.order(exchange('paris'))
  await answer(1, digest(1, { epoch: 'f', at: 99 }))
  expect(cache.latest(route('paris'))).toMatchObject({ seq: 1, epoch: 'f' })
})

it('the digest cache tries a cluster last while its object does not answer, and restores it after a while', async () => {
  const cache = open()
  const first = cache.order(exchange('paris', 'tokyo'))[0]!.cluster.id
  requests.find(({ cluster }) => cluster === first)!.reject(new Error('away'))
  requests.find(({ cluster }) => cluster !== first)!.resolve(digest(1))
  await Promise.all(background)
  expect(cache.order(exchange('paris', 'tokyo'))[0]!.cluster.id).not.toBe(first)
  now += 10_000
  expect(cache.order(exchange('paris', 'tokyo'))[0]!.cluster.id).toBe(first)
})

it('places without the object, and then tries its cluster last', () => {
  const cache = open()
  const [first] = cache.order(exchange('paris', 'tokyo'))
  expect(cache.fallback(admission(), first!)).toMatchObject({ kind: 'whole' })
  expect(cache.order(exchange('paris', 'tokyo'))[0]!.cluster.id).not.toBe(first!.cluster.id)
})
