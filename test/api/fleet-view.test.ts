import { expect, it } from 'vitest'
import { poolViews } from '../../src/api/fleet-view.ts'
import type { PoolDigest } from '../../src/core/contract/pool-digest.ts'
import type { RegionStatus } from '../../src/core/contract/region-status.ts'
import type { PoolRoute } from '../../src/origin/pool-route.ts'

const route = {
  cluster: { id: 'paris', region: null, gateway: {} },
  pool: { model: 'm', aliases: [], adapters: [], policy: { name: 'least_loaded' }, slo: null },
} as unknown as PoolRoute
const digest = { engines: [{ id: 'paris', available: true, healthy: true }] } as unknown as PoolDigest
const status = (more: Partial<RegionStatus>) => ({ reachable: true, engines: 2, ...more }) as RegionStatus

it.each([
  ['is reachable with engines', status({}), { available: true, healthy: true }],
  ['is unreachable', status({ reachable: false, engines: 0 }), { available: false, healthy: false }],
  ['has no available engine', status({ engines: 0 }), { available: false, healthy: true }],
  ['has sent no digest yet', null, { available: true, healthy: true }],
])('a region that %s has an engine as available as it is', async (_, region, expected) => {
  const parts = { ports: {}, models: { routes: [route] } } as unknown as Parameters<typeof poolViews>[0]
  const [pool] = await poolViews(parts, { digests: [digest], regions: [region] })
  expect(pool).toMatchObject({ engines: [{ id: 'paris', ...expected }] })
})

it('a pool has the error of its capacity as soon as it is known', async () => {
  const own = { ...route, cluster: { id: 'paris', region: null } } as unknown as PoolRoute
  const parts = { ports: {}, models: { routes: [own] } } as unknown as Parameters<typeof poolViews>[0]
  const capacityError = { minutes: 40, overstated: 4, understated: 1 }
  const known = { ...digest, engines: [], capacityError }
  const [pool] = await poolViews(parts, { digests: [known], regions: [null] })
  expect(pool).toMatchObject({ capacity_error: capacityError })
  const [unknown] = await poolViews(parts, { digests: [{ ...digest, engines: [] }], regions: [null] })
  expect(unknown!.capacity_error).toBeUndefined()
})
