import { randomUUID } from 'node:crypto'
import { ClusterState } from '../../core/pool/pool-state.ts'
import { withAutoConfigure, type PoolSource } from '../../origin/auto-configure.ts'
import { LocalCluster } from '../../origin/local-cluster.ts'
import type { Cluster } from '../../ports.ts'

/** How often bookings that nobody renews are looked for; a lease is many times longer. */
const SWEEP_MS = 1_000

export interface MemoryClustersOptions {
  /** The pool's configuration as it is now; null: there is no such pool. */
  readonly source: (clusterId: string, pool: string) => PoolSource | null
  /** Milliseconds since the epoch. */
  readonly now?: () => number
  /** In [0, 1). */
  readonly random?: () => number
}

export interface MemoryClusters {
  /** The same object for the same names. */
  cluster(clusterId: string, pool: string): Cluster
  /** Ends the bookings whose edges fell silent; called by a timer, and by tests. */
  sweep(): void
  close(): void
}

/** Every cluster in this process's memory: right for one gateway process. */
export function memoryClusters({
  source,
  now = Date.now,
  random = Math.random,
}: MemoryClustersOptions): MemoryClusters {
  const clusters = new Map<string, { readonly state: ClusterState; readonly cluster: Cluster }>()
  const sweep = () => {
    for (const { state } of clusters.values()) state.expire(now())
  }
  const timer = setInterval(sweep, SWEEP_MS)
  timer.unref()
  return {
    cluster(clusterId, pool) {
      const name = JSON.stringify([clusterId, pool])
      let known = clusters.get(name)
      if (known === undefined) {
        const state = new ClusterState({ random, epoch: randomUUID() })
        known = { state, cluster: withAutoConfigure(new LocalCluster(state, now), () => source(clusterId, pool)) }
        clusters.set(name, known)
      }
      return known.cluster
    },
    sweep,
    close: () => clearInterval(timer),
  }
}
