/** A case that can run in a cell of the matrix. */
import type { Fixture } from './fixture.ts'
import type { Cell } from './matrix.ts'
import type { PoolPlan } from './pool-plan.ts'
import type { SitePool } from './site-pool.ts'

export interface FieldCase {
  readonly plan: PoolPlan
  /** The pool is used by this cell alone, since the case changes its state. Cells with the same plan share one otherwise. */
  readonly ownPool?: boolean
  /** Configuration beside the pools, if the case needs one of its own. */
  readonly config?: Readonly<Record<string, unknown>>
  /** Throws if the cell fails; the message says what was seen. */
  run(cell: CellRun): Promise<void>
}

export interface CellRun extends Cell {
  readonly fixture: Fixture
  readonly pool: SitePool
}
