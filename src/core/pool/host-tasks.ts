import type { TrialOrder } from './condition/engine-watch.ts'
import type { PoolEvent } from './pool-events.ts'

/** Tasks of a pool for its host: what the pool, which has no I/O, cannot do itself. */
export interface HostTasks {
  readonly trials: readonly TrialOrder[]
  readonly events: readonly PoolEvent[]
  /** Engines are silent: call `watch` again soon. */
  readonly isSick: boolean
}
