/** Port of pool state: calls of a gateway to the sequencer of one pool. */
import type { Admission } from '../core/contract/admission.ts'
import type { BookingEvent } from '../core/contract/booking-event.ts'
import type { Decision } from '../core/contract/decision.ts'
import type { EngineSignal } from '../core/contract/engine-signal.ts'
import type { Placement } from '../core/contract/placement.ts'
import type { CostAnswer } from '../core/cost/request-cost.ts'
import type { PoolConfig } from '../core/contract/pool-config.ts'
import type { PoolDigest, PoolSummary } from '../core/contract/pool-digest.ts'
import type { Refusal } from '../core/contract/refusal.ts'
import type { RegionDigest } from '../core/contract/region-digest.ts'
import type { Resume } from '../core/contract/resume.ts'
import type { KvEventDelta, KvEventDeltaState } from '../core/kv-events/event-delta.ts'
import type { RegistryAnswer, RegistryCall } from '../core/lmcache/registry-call.ts'
import type { PoolEvent } from '../core/pool/pool-events.ts'
import type { HostTasks } from '../core/pool/host-tasks.ts'
import type { Lease } from './lease.ts'
import type { RequestScope } from './request-scope.ts'

/**
 * The single sequencer of one cluster's pool: a Durable Object on Workers, the same class in process on Node.
 * `admit` ranks and books in one synchronous step, so that concurrent requests see each other.
 */
export interface PoolPort {
  /** Adopts only newer versions; removed engines drain. */
  configure(version: number, pool: PoolConfig): Promise<void>
  /** `scope` keeps messages of the lease alive. Absent: the caller awaits them. */
  admit(admission: Admission, scope?: Pick<RequestScope, 'background'>): Promise<AdmitResult>
  /**
   * Limit of an `admit` that starts now, ms. Beyond it, the caller chooses by the last digest and books afterwards.
   * null, or absent: none but that of unreachable pool state.
   */
  admitLimitMs?(): number | null
  /** `admit` without a promise, for pool state in this process. null: call `admit`. Absent: always call `admit`. */
  admitNow?(admission: Admission): AdmitResult | null
  /**
   * Admits a request that the pool refused with `mayWait` as soon as there is room. Safe to repeat: a request is
   * admitted at most once. Absent: the pool has no queue.
   * @param waitedMs time that it has waited before, in a call that failed
   */
  wait?(admission: Admission, waitedMs: number, scope?: Pick<RequestScope, 'background'>): Promise<AdmitResult>
  /** Ends the wait of a request by its `bookingKey`, and the booking that it may have got. */
  leave?(key: string): Promise<void>
  /** Books again, without ranking, after an eviction of the object. Harmless for a booking that the object has. */
  resume(booking: Resume, scope?: Pick<RequestScope, 'background'>): Promise<Lease>
  /**
   * Applies an event of another gateway, for pool state in this process; `book` is `resume`. false: the pool state does
   * not have the booking. Absent: not supported.
   */
  applyNow?(event: BookingEvent | readonly [kind: 'book', booking: Resume]): boolean
  /** Ranks without booking. */
  rank(admission: Admission): Promise<RankOutcome>
  /** Applies signals. Returns the probed engines that also serve other sources. */
  observe(signals: readonly EngineSignal[]): Promise<readonly string[]>
  /**
   * Judges the engines of pool state in this process: trials to send now, and events for the log. Call it often.
   * Absent: the host of the state does this.
   */
  watchNow?(): HostTasks
  /** Passes a call of an LMCache server to the pool's registry. Absent: the pool has no registry. */
  registry?(call: RegistryCall): Promise<RegistryAnswer>
  /** Applies KV events of engines; one result each. Absent: KV events are not supported. */
  feed?(feeds: readonly KvEventDelta[]): Promise<readonly KvEventDeltaState[]>
  digest(): Promise<PoolDigest>
  /** Digest over all isolates of a Worker, for operators. Absent: `digest` has all. */
  fleetDigest?(): Promise<PoolDigest>
  /** Digest for gateways that choose among regions. */
  regionDigest(): Promise<RegionDigest>
  explain(id: string): Promise<Decision | null>
  /** Cost of a released booking by its key (`bookingKey`). Absent: costs are not counted. */
  costOf?(key: string): CostAnswer | Promise<CostAnswer>
  /** Digest for the dashboard, with the last decisions, newest first. Absent: use `digest`. */
  summary?(decisions: number, historySince?: number): Promise<PoolSummary>
}

export type AdmitResult =
  | {
      readonly lease: Lease
      readonly placement: Placement
      readonly policy: string
      readonly predictedTtftMs: number | null
      /** Events to log. Absent: none. */
      readonly events?: readonly PoolEvent[]
    }
  | { readonly refusal: Refusal }

export type RankOutcome = { readonly decision: Decision } | { readonly refusal: Refusal }

/** Arguments of `Ports.pool`. */
export type PoolName = readonly [clusterId: string, pool: string]
