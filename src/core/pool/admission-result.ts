import type { Placement } from '../contract/placement.ts'
import type { Refusal } from '../contract/refusal.ts'
import type { PoolEvent } from './pool-events.ts'

/** Handle of a booking. */
export interface BookingHandle {
  readonly key: string
}

export interface AdmittedBooking extends BookingHandle {
  readonly placement: Placement
  readonly policy: string
  readonly predictedTtftMs: number | null
  /** Events for the log. Absent: none. */
  readonly events?: readonly PoolEvent[]
}

export type AdmissionResult = AdmittedBooking | { readonly refusal: Refusal }
