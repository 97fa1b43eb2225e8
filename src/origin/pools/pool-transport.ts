/** Interface between a gateway and pool state in another thread or in a Durable Object. */
import type { Admission } from '../../core/contract/admission.ts'
import type { BookingEvent } from '../../core/contract/booking-event.ts'
import type { Refusal } from '../../core/contract/refusal.ts'
import type { Resume } from '../../core/contract/resume.ts'
import type { Lease } from '../../ports/lease.ts'
import type { AdmitResult, PoolPort } from '../../ports/pool.ts'
import type { RequestScope } from '../../ports/request-scope.ts'

/** Methods of a pool that a transport calls by name, with plain data. */
export type PoolMethod = Exclude<keyof PoolPort, 'admit' | 'admitNow' | 'wait' | 'resume' | 'applyNow'>

/** Admission result in transport form: without the lease, which both sides create themselves. */
export type AdmitAnswer =
  | { readonly refusal: Refusal }
  | Omit<Exclude<AdmitResult, { readonly refusal: Refusal }>, 'lease'>

export type BackgroundScope = Pick<RequestScope, 'background'>

/** Carries calls and booking events to the pool. Calls reject if the pool is unreachable. */
export interface PoolTransport {
  call(method: PoolMethod, args: readonly unknown[]): Promise<unknown>
  admit(admission: Admission): Promise<AdmitAnswer>
  /** As `PoolPort.wait`. */
  wait(admission: Admission, waitedMs: number): Promise<AdmitAnswer>
  /** As `PoolPort.admitLimitMs`. Absent: no limit. */
  admitLimitMs?(): number | null
  /** Rejects if the pool refuses. */
  resume(booking: Resume): Promise<void>
  /** false: the pool does not have the booking of this key (`bookingKey`). */
  renew(key: string): Promise<boolean>
  /** Delivers events in order. Never rejects; the caller need not wait. `scope` keeps the delivery alive. */
  send(event: BookingEvent, scope: BackgroundScope | undefined): Promise<void>
}

/** Applies an event to the lease of its booking. undefined: the pool has no use for the event. */
export function applyToLease(lease: Lease, event: BookingEvent): Promise<void> | undefined {
  switch (event[0]) {
    case 'leg_done':
      return lease.legDone?.(event[2], event[3], event[4])
    case 'first_token':
      return lease.firstToken(event[2])
    case 'progress':
      return lease.progress(event[2])
    case 'release':
      return lease.release(event[2])
  }
}
