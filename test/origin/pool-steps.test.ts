import { expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { toTargets } from '../../src/config/engine-targets.ts'
import type { PoolRoute } from '../../src/origin/pool-route.ts'
import { placeOnPool } from '../../src/origin/placement/place-on-pool.ts'
import { stepsByPool } from '../../src/origin/pool-steps.ts'

const engines = ['a', 'b'].map((id) => ({ id, url: `http://${id}:8000` }))

function routeOf(pool: object): PoolRoute {
  const config = parseConfig(
    { listen: '127.0.0.1:0', clusters: [{ id: 'near', pools: [{ model: 'm', engines, ...pool }] }] },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
  const [cluster] = config.clusters
  const [settings] = cluster!.pools
  return { cluster: cluster!, pool: settings!, targets: toTargets(settings!) }
}

const stepsOf = (pool: object) => stepsByPool({ comments: false, choosesClusters: false })(routeOf(pool))

it('a plain pool is asked without a lookup', () => {
  expect(stepsOf({}).place).toBe(placeOnPool)
})

it('a pool with LMCache looks caches up before it is asked', () => {
  expect(stepsOf({ lmcache: { coordinator: 'http://c:9000' } }).place).not.toBe(placeOnPool)
})

it('a gateway that chooses among clusters counts its prompts on their way', () => {
  expect(stepsByPool({ comments: false, choosesClusters: true })(routeOf({})).place).not.toBe(placeOnPool)
})

it('the steps of a pool are built once', () => {
  const steps = stepsByPool({ comments: false, choosesClusters: false })
  const route = routeOf({})
  expect(steps({ ...route })).toBe(steps(route))
})
