import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import { durableClusters } from '../../src/platform/workers/clusters.ts'
import { circuitContract } from '../contracts/circuits.ts'
import { clusterContract } from '../contracts/cluster.ts'
import { admission, pool } from '../contracts/cluster-fixtures.ts'
import { kvFeedContract } from '../contracts/kv-feed.ts'
import { queueContract } from '../contracts/queue.ts'
import { openCluster } from './open-cluster.ts'

clusterContract('durableClusters', openCluster)
circuitContract('durableClusters', openCluster)
kvFeedContract('durableClusters', openCluster)
queueContract('durableClusters', openCluster)

it('a pool with a jurisdiction has its object there', async () => {
  const asked: string[] = []
  const stub = { admit: async () => ({ refusal: { reason: 'no_engine', detail: 'x', retryAfterMs: 1 } }) }
  const within = (place: string) => ({
    idFromName: (name: string) => `${place} ${name}`,
    get(id: string) {
      asked.push(id)
      return stub
    },
    jurisdiction: within,
  })
  const namespace = within('anywhere') as unknown as typeof env.CLUSTER
  const place = { version: 1, pool: pool(), isRegional: false, generation: 1, locationHint: null }
  for (const jurisdiction of [null, 'eu'])
    await durableClusters(namespace, { source: () => ({ ...place, jurisdiction }) })('paris', 'qwen').admit(admission())
  expect(asked).toEqual(['anywhere cluster:paris:qwen:g1', 'eu cluster:paris:qwen:g1'])
})
