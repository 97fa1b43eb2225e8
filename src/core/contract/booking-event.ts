import type { EarlyLegRole } from './legs.ts'
import type { Outcome, Usage } from './outcome.ts'
import type { StageTimes } from './stages.ts'

/**
 * Event of a booking that needs no response: type, booking key (`bookingKey`), arguments. Flat, because many are sent
 * in one call.
 */
export type BookingEvent =
  | readonly [kind: 'leg_done', key: string, legRole: EarlyLegRole, stages: StageTimes, usage: Usage | null]
  | readonly [kind: 'first_token', key: string, stages: StageTimes]
  | readonly [kind: 'progress', key: string, outputBlocks: number]
  | readonly [kind: 'release', key: string, outcome: Outcome]
