import type { EarlyLegRole } from './legs.ts'
import type { ClusterState } from '../pool/pool-state.ts'
import type { Outcome, StageTimes, Usage } from './contract.ts'
import { readOutcome } from './decode.ts'

/**
 * Event of a booking that needs no response: type, booking key (`bookingKey`), arguments. Flat, because many are sent
 * in one call.
 */
export type BookingEvent =
  | readonly [said: 'leg_done', key: string, part: EarlyLegRole, stages: StageTimes, usage: Usage | null]
  | readonly [said: 'first_token', key: string, stages: StageTimes]
  | readonly [said: 'progress', key: string, outputBlocks: number]
  | readonly [said: 'release', key: string, outcome: Outcome]

/** Applies an event. Repeated, late and unknown events have no effect. false: nothing changed. */
export function applyEvent(state: ClusterState, bookingEvent: BookingEvent, now: number): boolean {
  const [said, key] = bookingEvent
  switch (said) {
    case 'leg_done':
      return state.legDone(key, { part: bookingEvent[2], stages: bookingEvent[3], usage: bookingEvent[4] }, now)
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
