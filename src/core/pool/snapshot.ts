import type { EarlyLegRole } from '../contract/legs.ts'
import type { Circuit } from './circuit.ts'
import type { Admission, EngineSpec, Placement, PoolConfig, ClusterDigest, EngineDigest } from '../contract/contract.ts'
import { unavailability } from './eligible.ts'
import type { EngineState } from './engine-state.ts'
import type { PoolAccounts } from './fleet.ts'

/** Returns one engine's entry of the digest. */
export function engineDigest(engine: EngineState, { load, ledger }: PoolAccounts, now: number): EngineDigest {
  const { spec, stats } = engine
  const kept = { ...load.digest(engine), ...ledger.digest(engine, now) }
  return {
    activeBlocks: 0,
    queuedPrefillS: 0,
    cachedBlocks: 0,
    cacheBlocks: spec.cacheBlocks ?? stats?.value.cacheBlocks ?? null,
    ...kept,
    id: spec.id,
    role: spec.role,
    weight: spec.weight,
    available: unavailability(engine, kept.requests, now) === null,
    healthy: engine.healthy,
    ...detailsOf(engine),
    draining: engine.isLeaving,
    ...(engine.moveAt === undefined ? {} : { moveAt: engine.moveAt }),
    asleep: engine.asleep,
    circuit: engine.circuit.state,
    ttftMs: engine.ttftMs,
    hitRate: engine.hitRate,
    requestsTotal: engine.requestsTotal,
    failuresTotal: engine.failuresTotal,
    ejectionsWithheld: engine.ejectionsWithheld,
    countedBefore: engine.countedBefore,
    stats: stats === null ? null : { ...stats.value, ageMs: Math.max(0, now - stats.at) },
  }
}

const detailsOf = ({ problem, lastFailure, version }: EngineState): Partial<EngineDigest> => ({
  ...(problem === undefined ? {} : { problem }),
  ...(lastFailure === undefined ? {} : { lastFailure }),
  ...(version === undefined ? {} : { engineVersion: version }),
})

/** Returns the digest of an object without configuration. */
export function emptyDigest(facts: Pick<ClusterDigest, 'version' | 'epoch' | 'seq' | 'at'>): ClusterDigest {
  return { ...facts, cluster: '', pool: '', configVersion: 0, bookings: 0, engines: [] }
}

/** Version of the snapshot. Raise it if the meaning of a field changes; other versions are not read. */
export const SNAPSHOT_VERSION = 3

/** `ClusterState` as plain data. */
export interface ClusterSnapshot {
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
  readonly ttftMs: number | null
  readonly requestsTotal: number
  readonly failuresTotal: number
}

export interface BookingSnapshot {
  readonly admission: Admission
  readonly placement: Placement
  readonly bookedAt: number
  readonly seenAt: number
  readonly firstTokenSeen: boolean
  /** Roles whose legs ended before the first token; absent in older snapshots. */
  readonly legsDone?: readonly EarlyLegRole[]
  readonly outputBlocks: number
}
