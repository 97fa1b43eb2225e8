/** Times at which a request without a first byte, or a silent stream, asks whether its engine is wedged. */
import { predictionErrorMs } from './owed-tokens.ts'

/** Time from the first overdue sign to the result of a trial, ms: the shortest trial and the looks at both ends. */
const TRIAL_MS = 1_200

const FIRST_INTERVAL_MS = 500
const GROWTH = 1.25
const MAX_INTERVAL_MS = 4_000

/**
 * Time until the first question, ms: no engine can be found wedged before.
 * @param expectedMs predicted time to the next byte; 0: unknown
 */
export function firstQuestionMs(expectedMs: number): number {
  return expectedMs + predictionErrorMs(expectedMs, true) + TRIAL_MS
}

/** Time until the next question, ms. @param lastMs interval before; null: that was the first one */
export function nextQuestionMs(lastMs: number | null): number {
  return lastMs === null ? FIRST_INTERVAL_MS : Math.min(MAX_INTERVAL_MS, GROWTH * lastMs)
}
