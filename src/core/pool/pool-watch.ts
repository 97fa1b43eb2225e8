import type { TrialOrder } from './engine-watch.ts'
import type { PoolEvent } from './pool-events.ts'

/** What a pool asks of its host. */
export interface PoolWatch {
  readonly trials: readonly TrialOrder[]
  readonly events: readonly PoolEvent[]
  /** Engines are silent: the pool is to be watched again soon. */
  readonly isSick: boolean
}
