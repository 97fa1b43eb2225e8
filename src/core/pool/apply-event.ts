import type { BookingEvent } from '../contract/booking-event.ts'
import { readOutcome } from '../contract/decode.ts'
import type { PoolState } from './pool-state.ts'

/** Applies an event. Repeated, late and unknown events have no effect. false: nothing changed. */
export function applyEvent(state: PoolState, bookingEvent: BookingEvent, now: number): boolean {
  const [type, key] = bookingEvent
  switch (type) {
    case 'leg_done':
      return state.legDone(key, { legRole: bookingEvent[2], stages: bookingEvent[3], usage: bookingEvent[4] }, now)
    case 'first_token':
      return state.firstToken(key, bookingEvent[2], now)
    case 'progress':
      return state.progress(key, bookingEvent[2], now)
    case 'release':
      // Throws for an invalid outcome before anything has ended.
      return 'result' in bookingEvent[2] && state.release(key, readOutcome(bookingEvent[2]), now)
    default:
      return false
  }
}
