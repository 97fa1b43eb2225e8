import type { EarlyPart } from './books.ts'
import type { ClusterState } from './cluster-state.ts'
import type { Outcome, StageTimes, Usage } from './contract.ts'
import { readOutcome } from './payload.ts'

/**
 * What an edge says of a booking and wants no answer to: what, of which booking (`bookingKey`), and the rest. Flat, since
 * many of them cross the wire in one call.
 */
export type Notice =
  | readonly [said: 'leg_done', key: string, part: EarlyPart, stages: StageTimes, usage: Usage | null]
  | readonly [said: 'first_token', key: string, stages: StageTimes]
  | readonly [said: 'progress', key: string, outputBlocks: number]
  | readonly [said: 'release', key: string, outcome: Outcome]

/** Harmless when repeated or late; of a kind that is not known here, nothing happens. false: nothing is changed. */
export function hear(state: ClusterState, notice: Notice, now: number): boolean {
  const [said, key] = notice
  switch (said) {
    case 'leg_done':
      return state.legDone(key, { part: notice[2], stages: notice[3], usage: notice[4] }, now)
    case 'first_token':
      return state.firstToken(key, notice[2], now)
    case 'progress':
      return state.progress(key, notice[2], now)
    case 'release':
      // Throws at what is no outcome before anything has ended.
      return 'result' in notice[2] && state.release(key, readOutcome(notice[2]), now)
    default:
      return false
  }
}
