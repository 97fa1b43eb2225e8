import type { Placement, Outcome, StageTimes, Usage } from './contract.ts'
import type { ClusterState } from '../pool/pool-state.ts'
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

/**
 * Work that an engine does for a booking. `encode` and `prefill` end at the first token, the others with the booking.
 */
export type LegRole = 'whole' | 'encode' | 'prefill' | 'decode'

/** Roles that end at the first token or before it. */
export type EarlyLegRole = 'encode' | 'prefill'

/** Engines of a placement by id, each with its role. */
export function partsOf(placement: Placement): readonly { readonly engine: string; readonly part: LegRole }[] {
  switch (placement.kind) {
    case 'whole':
      return [{ engine: placement.engine, part: 'whole' }]
    case 'split':
      return [
        { engine: placement.prefill, part: 'prefill' },
        { engine: placement.decode, part: 'decode' },
      ]
    case 'staged':
      return [
        ...placement.encode.map((engine) => ({ engine, part: 'encode' as const })),
        ...(placement.prefill === null ? [] : [{ engine: placement.prefill, part: 'prefill' as const }]),
        { engine: placement.decode, part: placement.prefill === null ? ('whole' as const) : ('decode' as const) },
      ]
  }
}

/** Whether a leg of this role ends at the first token or before it. */
export function endsAtFirstToken(part: LegRole): part is EarlyLegRole {
  return part === 'encode' || part === 'prefill'
}
