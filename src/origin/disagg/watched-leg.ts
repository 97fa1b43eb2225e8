/**
 * Heartbeats of a stream until the response headers of its final leg are here, as during the legs before. After them,
 * heartbeats are those of the engine's answer, with its headers.
 */
import { dispatchWith, recordHead, type SendStep } from '../dispatch.ts'

export const watched =
  (send: SendStep): SendStep =>
  (attempt, finalLeg, onFirstByte) => {
    const sent = send(attempt, finalLeg, onFirstByte)
    return attempt.exchange.longWait?.during(sent) ?? sent
  }

/** `dispatch`, for `watched`. */
export const watchedDispatch = dispatchWith((attempt, ...head) => {
  attempt.exchange.longWait?.headIsHere()
  recordHead(attempt, ...head)
})
