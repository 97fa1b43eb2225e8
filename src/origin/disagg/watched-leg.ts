import type { dispatch } from '../dispatch.ts'

/** Gives a stream heartbeats until the response headers of its final leg are here, as during the legs before. */
export const watched =
  (send: typeof dispatch): typeof dispatch =>
  (attempt, last, onFirstByte) => {
    const sent = send(attempt, last, onFirstByte)
    return attempt.exchange.longWait?.during(sent) ?? sent
  }
