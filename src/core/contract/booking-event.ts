import type { EarlyLegRole } from './legs.ts'
import type { Outcome, Usage } from './outcome.ts'
import type { StageTimes } from './stages.ts'

/**
 * Event of a booking that needs no response: type, booking key (`bookingKey`), arguments. Flat, because many are sent
 * in one call.
 */
export type BookingEvent =
  | readonly [said: 'leg_done', key: string, part: EarlyLegRole, stages: StageTimes, usage: Usage | null]
  | readonly [said: 'first_token', key: string, stages: StageTimes]
  | readonly [said: 'progress', key: string, outputBlocks: number]
  | readonly [said: 'release', key: string, outcome: Outcome]
