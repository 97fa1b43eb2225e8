import { memoryClusters } from '../../src/platform/node/clusters.ts'
import type { Cluster } from '../../src/ports.ts'
import { clusterContract, type Source } from '../contracts/cluster.ts'
import { kvFeedContract } from '../contracts/kv-feed.ts'
import { policiesContract, type OpenPolicies } from '../contracts/policies.ts'

clusterContract('memoryClusters', open)
kvFeedContract('memoryClusters', open)
policiesContract('memoryClusters', open)

async function open(source: Source): Promise<OpenPolicies> {
  let now = 1_800_000_000_000
  let draw = 0.5
  const start = () => memoryClusters({ source: () => source, now: () => now, random: () => draw })
  let clusters = start()
  return {
    get cluster(): Cluster {
      return clusters.cluster('paris', 'qwen')
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
