import type { Admission } from '../contract/admission.ts'
import type { PausedEngine } from '../contract/engine-signal.ts'
import type { EarlyLegRole } from '../contract/legs.ts'
import type { Placement } from '../contract/placement.ts'
import type { EngineSpec, PoolConfig } from '../contract/pool-config.ts'
import type { StateChange } from '../contract/pool-digest.ts'
import type { Circuit } from './pool-engines/circuit.ts'
import type { EngineState } from './pool-engines/engine-state.ts'

/** Version of the snapshot. Raise it if the meaning of a field changes; other versions are not read. */
export const SNAPSHOT_VERSION = 3

/** `PoolState` as plain data. */
export interface PoolSnapshot {
  readonly version: number
  readonly at: number
  readonly configVersion: number
  readonly pool: PoolConfig
  readonly engines: readonly EngineSnapshot[]
  readonly bookings: readonly BookingSnapshot[]
  /** Learned values of the engines (`PoolLedger.snapshot`). */
  readonly estimators: unknown
}

export interface EngineSnapshot {
  /** Complete spec, because a removed engine that drains is no longer in the pool. */
  readonly spec: EngineSpec
  readonly removed: boolean
  readonly circuit: Circuit
  readonly healthy: boolean
  readonly asleep: boolean
  readonly draining: boolean
  /** As in EngineDigest. */
  readonly moveAt?: number
  readonly paused?: PausedEngine
  /** Absent: none, or an older snapshot. */
  readonly changes?: readonly StateChange[]
  /** Absent: its answers were not ended. */
  readonly fencedAt?: number
  readonly ttftMs: number | null
  readonly requestsTotal: number
  readonly failuresTotal: number
}

export const engineSnapshot = ({
  spec,
  removed,
  circuit,
  healthy,
  asleep,
  draining,
  moveAt,
  paused,
  changes,
  fencedAt,
  ttftMs,
  requestsTotal,
  failuresTotal,
}: EngineState): EngineSnapshot => ({
  spec,
  removed,
  circuit,
  healthy,
  asleep,
  draining,
  ...(moveAt === undefined ? {} : { moveAt }),
  ...(paused === null ? {} : { paused }),
  ...(changes.list.length === 0 ? {} : { changes: changes.list }),
  ...(fencedAt === -Infinity ? {} : { fencedAt }),
  ttftMs,
  requestsTotal,
  failuresTotal,
})

export interface BookingSnapshot {
  readonly admission: Admission
  readonly placement: Placement
  readonly bookedAt: number
  readonly seenAt: number
  readonly firstTokenSeen: boolean
  /** Roles whose legs ended before the first token; absent in older snapshots. */
  readonly legsDone?: readonly EarlyLegRole[]
  readonly outputBlocks: number
  /** Its answer may not go on. Absent: it may. */
  readonly isFenced?: boolean
}
