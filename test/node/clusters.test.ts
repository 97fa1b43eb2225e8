import { memoryClusters } from '../../src/platform/node/clusters.ts'
import type { Cluster } from '../../src/ports.ts'
import { clusterContract, type OpenCluster, type Source } from '../contracts/cluster.ts'
import { kvFeedContract } from '../contracts/kv-feed.ts'

clusterContract('memoryClusters', open)
kvFeedContract('memoryClusters', open)

async function open(source: Source): Promise<OpenCluster> {
  let now = 1_800_000_000_000
  const start = () => memoryClusters({ source: () => source, now: () => now, random: () => 0.5 })
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
    async close() {
      clusters.close()
    },
  }
}
