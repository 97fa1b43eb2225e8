/** What the parts of a pool feed share. */
import type { EngineSignal } from '../../../core/contract/engine-signal.ts'
import type { Result } from '../../../core/contract/outcome.ts'
import type { PoolConfig } from '../../../core/contract/pool-config.ts'
import type { ReplicaDigest } from '../../../core/contract/pool-digest.ts'
import type { PoolPort } from '../../../ports/pool.ts'
import type { Connection } from './connection.ts'
import type { ChannelEvent } from './messages.ts'

/** Keys of one pool on the server. All have the same hash tag, so they lie in one slot of a cluster. */
interface PoolKeys {
  readonly present: string
  readonly channel: string
  /** Hash of the open bookings of a replica. */
  readonly bookings: (replica: string) => string
}

export interface PoolParts {
  /** Id of this replica. */
  readonly replica: string
  readonly keys: PoolKeys
  readonly leaseMs: number
  /** Carries the events of this replica. */
  readonly publish: Pick<Connection, 'client' | 'run'>
  /** Heartbeats and snapshots, which must not wait behind events. */
  readonly control: Pick<Connection, 'client' | 'run'>
  /** Own state of the pool, without the other replicas; methods of `withAutoConfigure` need no `this`. */
  readonly localPool: PoolPort
  /** null: the pool is not configured any more. */
  readonly pool: () => PoolConfig | null
  /** Milliseconds since the epoch. */
  readonly now: () => number
  readonly rejected: (error: Error) => void
}

/** An event with its field in the hash of open bookings. */
export type Field = readonly [field: string, event: ChannelEvent]

type Drain = Extract<EngineSignal, { readonly kind: 'drain' }>

/** A state that an operator sets. */
export type OperatorSignal = Drain | Extract<EngineSignal, { readonly kind: 'pause' }>

export interface FeedParts extends Omit<PoolParts, 'keys'> {
  readonly prefix: string
  readonly replicas: () => { readonly replicas: readonly ReplicaDigest[]; readonly replicasUp: boolean }
  readonly drained: (signal: Drain) => void
  /** Ends the answers of an engine, because they may not go on. */
  readonly fence: (engine: string) => void
  readonly forget: (responseId: string) => void
  readonly joined: (replica: string) => void
  readonly left: (replica: string, bookings: number, result: Result) => void
  /** The subscription does not work and is made again on a new connection. */
  readonly failed: (error: Error) => void
}
