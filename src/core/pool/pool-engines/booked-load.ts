import type { PoolLedger } from '../ledger.ts'
import type { LoadStats } from '../load-stats.ts'

/** Load that live bookings put on a pool's engines: counts, and the ledger of blocks and prefills. */
export interface BookedLoad {
  readonly load: LoadStats
  readonly ledger: PoolLedger
}
