import type { Admission } from './admission.ts'
import type { Placement } from './placement.ts'

/** Request of a gateway to book again, without ranking, after the object lost its memory. */
export interface Resume {
  readonly admission: Admission
  readonly placement: Placement
  readonly firstTokenSeen: boolean
  /** Legs that ended before the first token. Absent from older gateways. */
  readonly legsDone?: readonly ('encode' | 'prefill')[]
  readonly outputBlocks: number
  /** Time since the placement, ms: answers that began before a fence may not go on. Absent: unknown. */
  readonly ageMs?: number
  /**
   * Set if another replica decided and counts the request: `now`, or `before` this one received its bookings. Absent:
   * decided here and lost.
   */
  readonly ofPeer?: 'now' | 'before'
}
