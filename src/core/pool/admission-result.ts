import type { Placement } from '../contract/placement.ts'
import type { Refusal } from '../contract/refusal.ts'
import type { PoolEvent } from './pool-events.ts'

/** Handle of a booking. */
export interface BookingHandle {
  readonly key: string
}

/** What the pool has decided for an admitted request. */
export interface AdmittedRequest {
  readonly placement: Placement
  readonly policy: string
  readonly predictedTtftMs: number | null
  /** Events for the log. Absent: none. */
  readonly events?: readonly PoolEvent[]
}

export interface AdmittedBooking extends BookingHandle, AdmittedRequest {}

export interface RefusedRequest {
  readonly refusal: Refusal
}

export type AdmissionResult = AdmittedBooking | RefusedRequest

/** Result for a gateway elsewhere, which makes the key and the lease itself. */
export type AdmitAnswer = AdmittedRequest | RefusedRequest
