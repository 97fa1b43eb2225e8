import { abortAllDurableObjects, runDurableObjectAlarm } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { durablePools, objectName } from '../../src/platform/workers/durable-pools.ts'
import type { Source } from '../contracts/cluster.ts'
import type { OpenPolicies } from '../contracts/policies.ts'
import { clock, draws } from './cluster-clock.ts'

let generation = 0

/** State of a pool in its own object, with a clock and draws that a test sets. */
export async function openCluster(source: Source): Promise<OpenPolicies> {
  // Two suites open theirs before each test, so each call uses a new object.
  const own = (generation += 1)
  const place = () => ({ ...source, isRegional: false, generation: own, locationHint: null })
  const cluster = durablePools(env.CLUSTER, { source: place, now: clock.now })('paris', 'qwen')
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
