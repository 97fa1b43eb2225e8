import { abortAllDurableObjects, runDurableObjectAlarm } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { durableClusters, objectName } from '../../src/platform/workers/clusters.ts'
import { clusterContract, type Source } from '../contracts/cluster.ts'
import { kvFeedContract } from '../contracts/kv-feed.ts'
import { policiesContract, type OpenPolicies } from '../contracts/policies.ts'
import { clock, draws } from './cluster-clock.ts'

clusterContract('durableClusters', open)
kvFeedContract('durableClusters', open)
policiesContract('durableClusters', open)

let generation = 0

async function open(source: Source): Promise<OpenPolicies> {
  // Two suites open theirs before each test: each keeps its own.
  const own = (generation += 1)
  const place = () => ({ ...source, isRegional: false, generation: own, locationHint: null })
  const cluster = durableClusters(env.CLUSTER, { source: place })('paris', 'qwen')
  const stub = env.CLUSTER.getByName(objectName('paris', 'qwen', own))
  return {
    cluster,
    now: clock.now,
    async advance(ms) {
      clock.advance(ms)
      await runDurableObjectAlarm(stub)
    },
    async forget() {
      await abortAllDurableObjects()
    },
    draw: draws.set,
    async close() {
      draws.set(null)
    },
  }
}
