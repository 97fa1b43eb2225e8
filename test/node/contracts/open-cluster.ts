import { memoryPools } from '../../../src/platform/node/memory-pools.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import type { Source } from '../../contracts/cluster.ts'
import type { OpenPolicies } from '../../contracts/policies.ts'

/** State of a pool in this process, with a clock and draws that a test sets. */
export async function openCluster(source: Source): Promise<OpenPolicies> {
  let now = 1_800_000_000_000
  let draw = 0.5
  const start = () => memoryPools({ source: () => source, now: () => now, random: () => draw })
  let clusters = start()
  return {
    get cluster(): PoolPort {
      return clusters.pool('paris', 'qwen')
    },
    now: () => now,
    async advance(ms) {
      now += ms
      clusters.sweep()
    },
    async forget() {
      clusters.close()
      clusters = start()
    },
    draw(value) {
      draw = value
    },
    async close() {
      clusters.close()
    },
  }
}
