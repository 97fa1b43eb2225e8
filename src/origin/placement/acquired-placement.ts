import type { Placement } from '../../core/contract/placement.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { PoolRoute } from '../pool-route.ts'
import type { LeaseKeeper } from '../lease-keeper.ts'

/** Engines of one attempt and the booking that holds them. */
export interface AcquiredPlacement {
  readonly route: PoolRoute
  readonly placement: Placement
  readonly engine: EngineTarget
  readonly policy: string
  readonly predictedTtftMs: number | null
  readonly booking: LeaseKeeper
  /** As in `Admission`. */
  readonly attempt: number
  readonly promptTokens: number
  /** Parallel answers (`n`, several prompts); undefined: one. */
  readonly sequences: number | undefined
  /** Entries of the decision header besides the id: `fallback=…`, `failover=…`. */
  readonly notes: readonly string[]
}
