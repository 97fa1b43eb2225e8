import { randomUUID } from 'node:crypto'
import { PoolState } from '../../core/pool/pool-state.ts'
import { type PoolSource, withAutoConfigure } from '../../origin/pools/auto-configure.ts'
import { LocalPool } from '../../origin/pools/local-pool.ts'
import type { PoolPort } from '../../ports/pool.ts'

/** Interval of the check for expired bookings; a lease is many times longer. */
const SWEEP_MS = 1_000

interface MemoryPoolsOptions {
  /** Returns the current configuration of a pool; null: no such pool. */
  readonly source: (clusterId: string, pool: string) => PoolSource | null
  /** Milliseconds since the epoch. */
  readonly now?: () => number
  /** In [0, 1). */
  readonly random?: () => number
}

export interface MemoryPools {
  /** Returns the same object for the same names. */
  pool(clusterId: string, poolName: string): PoolPort
  /** Releases expired bookings. Called by a timer, and by tests. */
  sweep(): void
  close(): void
}

interface MemoryPool {
  readonly state: PoolState
  readonly pool: PoolPort
}

/** Pool state in this process's memory: sufficient for one gateway process. */
export function memoryPools({ source, now = Date.now, random = Math.random }: MemoryPoolsOptions): MemoryPools {
  /** By cluster and name. */
  const pools = new Map<string, Map<string, MemoryPool>>()
  const sweep = () => {
    for (const named of pools.values()) for (const { state } of named.values()) state.expire(now())
  }
  const timer = setInterval(sweep, SWEEP_MS)
  timer.unref()
  return {
    pool(clusterId, poolName) {
      let named = pools.get(clusterId)
      if (named === undefined) pools.set(clusterId, (named = new Map()))
      let known = named.get(poolName)
      if (known === undefined) {
        const state = new PoolState({ random, epoch: randomUUID() })
        known = { state, pool: withAutoConfigure(new LocalPool(state, now), () => source(clusterId, poolName)) }
        named.set(poolName, known)
      }
      return known.pool
    },
    sweep,
    close: () => clearInterval(timer),
  }
}
