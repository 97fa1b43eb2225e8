/**
 * Messages between the isolates of a Worker and their shared object. Fields are only added: an isolate and an object of
 * different versions exchange them during a deployment, so an absent field means "unknown".
 */
import type { Decision } from '../contract/decision.ts'
import type { PoolDigest } from '../contract/pool-digest.ts'
import type { PoolHistory } from '../contract/pool-history.ts'

/** JSON of numbers, which is summed over isolates. */
export type Totals = number | null | readonly Totals[] | { readonly [key: string]: Totals }

/** Circuit of a region without times: clocks of isolates differ. */
export interface SharedCircuit {
  readonly state: 'closed' | 'open' | 'half_open'
  /** Milliseconds until the next trial. 0 unless it is open. */
  readonly leftMs: number
  readonly openings: number
  /** A timeout opened it. */
  readonly isHung?: boolean
}

/** Ledger of one isolate for a pool of a region. */
export interface RegionReport {
  readonly cluster: string
  readonly pool: string
  readonly digest: PoolDigest
  readonly circuit: SharedCircuit
  /** Number of changes of the circuit by requests of this isolate. */
  readonly changes: number
  /** Requests of the last ten seconds. */
  readonly recent: number
  /** Newest steps and slices of this isolate. Absent from older isolates. */
  readonly history?: PoolHistory
}

/** A request that has ended, as the request history has it. */
export interface RequestRow {
  readonly record: { readonly id: string; readonly requestId?: string | null }
}

/** Totals of one isolate since its start. A repeated or late batch has no effect. */
export interface SyncBatch {
  readonly version: number
  readonly isolate: string
  /** Counts up from 1. */
  readonly n: number
  /** Start of the isolate, ms since the epoch. */
  readonly startedAt: number
  readonly configVersion: number
  readonly totals: Totals
  readonly regions: readonly RegionReport[]
  /** New and changed decisions. */
  readonly decisions: readonly Decision[]
  readonly requests: readonly RequestRow[]
}

/** State of a region's pool that all isolates follow. */
export interface RegionShare {
  readonly cluster: string
  readonly pool: string
  readonly draining: boolean
  /** null: no isolate has changed it. */
  readonly circuit: SharedCircuit | null
  /** `changes` that the circuit includes. A newer local change takes precedence. */
  readonly acknowledged: number
  /** Share of `max_in_flight` and of the retry minimum, 0..1. */
  readonly fraction: number
  /** Requests of the other isolates in flight. */
  readonly elsewhere: number
}

export interface SyncAnswer {
  readonly version: number
  readonly epoch: string
  readonly seq: number
  /** Number of isolates of the last ten seconds. */
  readonly isolates: number
  /** Start of the first isolate, ms since the epoch. */
  readonly startedAt: number
  /** Minimum time until the next sync, ms. */
  readonly nextMs: number
  readonly regions: readonly RegionShare[]
}

export const SYNC_VERSION = 1
