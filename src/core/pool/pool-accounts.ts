import type { PoolLedger } from './ledger.ts'
import type { LoadStats } from './load-stats.ts'

/** Accounts of a pool's live bookings. */
export interface PoolAccounts {
  readonly load: LoadStats
  readonly ledger: PoolLedger
}
