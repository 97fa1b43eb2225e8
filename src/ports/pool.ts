/** Port of pool state: calls of a gateway to the sequencer of one pool. Part of the public API of the package. */
import type { Admission } from '../core/contract/admission.ts'
import type { BookingEvent } from '../core/contract/booking-event.ts'
import type { Decision } from '../core/contract/decision.ts'
import type { EngineSignal } from '../core/contract/engine-signal.ts'
import type { CostAnswer } from '../core/cost/request-cost.ts'
import type { PoolConfig } from '../core/contract/pool-config.ts'
import type { PoolDigest, PoolSummary } from '../core/contract/pool-digest.ts'
import type { RegionDigest } from '../core/contract/region-digest.ts'
import type { Resume } from '../core/contract/resume.ts'
import type { KvEventDelta, KvEventDeltaState } from '../core/kv-events/event-delta.ts'
import type { RegistryAnswer, RegistryCall } from '../core/lmcache/registry-call.ts'
import type { AdmittedRequest, RefusedRequest } from '../core/pool/admission-result.ts'
import type { HostTasks } from '../core/pool/host-tasks.ts'
import type { Lease } from './lease.ts'
import type { RequestScope } from './request-scope.ts'

/**
 * The single sequencer of one pool: a Durable Object on Workers, the same class in process on Node.
 * `admit` ranks and books in one synchronous step, so that concurrent requests see each other. All other abilities are
 * capabilities: absent, the pool has not got them.
 */
export interface PoolPort {
  /** Adopts only newer versions; removed engines drain. */
  configure(version: number, pool: PoolConfig): Promise<void>
  /** `scope` keeps messages of the lease alive. Absent: the caller awaits them. */
  admit(admission: Admission, scope?: Pick<RequestScope, 'background'>): Promise<AdmitResult>
  /** Books again, without ranking, after an eviction of the object. Harmless for a booking that the object has. */
  resume(booking: Resume, scope?: Pick<RequestScope, 'background'>): Promise<Lease>
  /** Applies signals. Returns the probed engines that also serve other sources. */
  observe(signals: readonly EngineSignal[]): Promise<readonly string[]>
  digest(): Promise<PoolDigest>
  readonly local?: LocalState | undefined
  readonly remote?: RemoteState | undefined
  readonly queue?: PoolQueue | undefined
  readonly registry?: PoolRegistry | undefined
  readonly kvEvents?: KvEventFeed | undefined
  readonly decisions?: PoolDecisions | undefined
  readonly overview?: PoolOverview | undefined
  readonly costs?: PoolCosts | undefined
  readonly region?: RegionDigestSource | undefined
}

/** A pool that names all its capabilities: a wrapper of this type does not compile without one of them. */
export type WrappedPool = { readonly [Name in keyof Required<PoolPort>]: PoolPort[Name] }

/** Capability: the state is in this process, so that calls need no promise. */
export interface LocalState {
  /** As `admit`. null: call `admit`. */
  admit(admission: Admission): AdmitResult | null
  /** Applies an event of another gateway; `book` is `resume`. false: the pool state does not have the booking. */
  apply(event: BookingEvent | readonly [kind: 'book', booking: Resume]): boolean
  /** Judges the engines: trials to send now, and events for the log. Call it often. Absent: another part does this. */
  watch(): HostTasks
}

/** Capability: calls take a way on which they can be slow. */
export interface RemoteState {
  /**
   * Limit of an `admit` that starts now, ms. Beyond it, the caller chooses by the last digest and books afterwards.
   * null: none but that of unreachable pool state.
   */
  admitLimitMs(): number | null
}

/** Capability: requests wait for room. */
export interface PoolQueue {
  /**
   * Admits a request that the pool refused with `mayWait` as soon as there is room. Safe to repeat: a request is
   * admitted at most once.
   * @param waitedMs time that it has waited before, in a call that failed
   */
  wait(admission: Admission, waitedMs: number, scope?: Pick<RequestScope, 'background'>): Promise<AdmitResult>
  /** Ends the wait of a request by its `bookingKey`, and the booking that it may have got. */
  leave(key: string): Promise<void>
}

/** Capability: LMCache servers report their instances and chunks to the pool. */
export interface PoolRegistry {
  call(call: RegistryCall): Promise<RegistryAnswer>
}

/** Capability: engines report what is in their caches. */
export interface KvEventFeed {
  /** One result for each feed. */
  feed(feeds: readonly KvEventDelta[]): Promise<readonly KvEventDeltaState[]>
}

/** Capability: decisions can be asked for. */
export interface PoolDecisions {
  /** Decides without booking. */
  dryRun(admission: Admission): Promise<DryRunResult>
  /** The decision of a request. null: the pool has none. */
  explain(id: string): Promise<Decision | null>
}

/** Capability: data of the dashboard beside `digest`. */
export interface PoolOverview {
  /** Digest with the last decisions, newest first. */
  summary(decisions: number, historySince?: number): Promise<PoolSummary>
  /** Digest over all isolates of a Worker, for operators. Absent: `digest` has all. */
  readonly digest?: (() => Promise<PoolDigest>) | undefined
}

/** Capability: the costs of requests are counted. */
export interface PoolCosts {
  /** Cost of a released booking by its key (`bookingKey`). It is returned once. */
  costOf(key: string): CostAnswer | Promise<CostAnswer>
}

/** Capability: gateways that choose among regions can send requests here. */
export interface RegionDigestSource {
  digest(): Promise<RegionDigest>
}

export type AdmitResult = (AdmittedRequest & { readonly lease: Lease }) | RefusedRequest

export type DryRunResult = { readonly decision: Decision } | RefusedRequest

/** Arguments of `Ports.pool`. */
export type PoolName = readonly [clusterId: string, pool: string]
