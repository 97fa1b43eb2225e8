/** What the exchange of one pool's bookings works with. */
import type { PoolConfig } from '../../../core/contract/contract.ts'
import type { Cluster } from '../../../ports.ts'
import type { Link } from './connection.ts'
import type { PoolEvent } from './messages.ts'

/** Names of one pool on the server. All have the same hash tag, so they lie in one slot of a cluster. */
export interface PoolKeys {
  readonly number: string
  readonly present: string
  readonly channel: string
  readonly open: (replica: string) => string
}

export interface PoolParts {
  /** Id of this replica. */
  readonly replica: string
  readonly keys: PoolKeys
  readonly leaseMs: number
  /** Carries the events of this replica. */
  readonly publish: Pick<Link, 'client' | 'run'>
  /** Heartbeats and snapshots, which must not wait behind events. */
  readonly control: Pick<Link, 'client' | 'run'>
  /** Own state of the pool, without the other replicas. */
  readonly ledger: Cluster
  /** null: the pool is not configured any more. */
  readonly pool: () => PoolConfig | null
  /** Milliseconds since the epoch. */
  readonly now: () => number
  readonly rejected: (error: Error) => void
}

/** An event with its field in the hash of open bookings. */
export type Field = readonly [field: string, event: PoolEvent]
