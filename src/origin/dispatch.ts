/** Sends the request of the final leg and waits for its first byte. */
import type { Timers, ResponseHandler, OriginAnswer, OriginRequest } from '../ports.ts'
import { isClientAnswer, classifyStatus, type AttemptFailed, type AttemptContext } from './classify.ts'
import type { FinalLeg } from './disagg/legs.ts'
import { defaultTimers } from './timers.ts'

/** Handles an answer at its first byte, or (`early`) when heartbeats must start before it. */
export type OnFirstByte = (answer: OriginAnswer, early: boolean) => Response | AttemptFailed

/**
 * Sends the request and waits for the first byte. Calls `begun` at the first byte, in the same tick if the platform
 * can. Rejects with an OriginError, with the signal's reason, or with the error that `begun` throws.
 */
export function dispatch(
  attempt: AttemptContext,
  last: FinalLeg,
  begun: OnFirstByte,
): Promise<Response | AttemptFailed> {
  const { origin } = attempt.ports
  const request = requestOf(attempt, last)
  if (origin.begin === undefined) return dispatchInSteps(attempt, request, begun)
  return new Promise((resolve, reject) =>
    origin.begin!(request, new PendingDispatch({ attempt, engine: request.target, begun, resolve, reject })),
  )
}

function requestOf({ exchange, ports, placed }: AttemptContext, { target, path, body }: FinalLeg): OriginRequest {
  const { connectMs, firstByteMs, answerMs } = placed.route.pool.limits
  const headers =
    target.isGateway === true && exchange.forGateway !== undefined
      ? [...exchange.headers, ...exchange.forGateway]
      : exchange.headers
  return {
    target,
    method: exchange.method,
    path,
    headers,
    body,
    connectMs,
    // An engine sends a response that does not stream when it is complete.
    firstByteMs: exchange.stream ? firstByteMs : answerMs,
    signal: exchange.signal,
    alarms: exchange.scope.alarms ?? ports.alarms,
  }
}

interface DispatchParts {
  readonly attempt: AttemptContext
  readonly engine: OriginRequest['target']
  readonly begun: OnFirstByte
  resolve(outcome: Response | AttemptFailed): void
  reject(error: unknown): void
}

class PendingDispatch implements ResponseHandler {
  readonly patienceMs: number
  readonly #parts: DispatchParts
  readonly #dispatchedAt: number

  constructor(parts: DispatchParts) {
    this.#parts = parts
    this.patienceMs = parts.attempt.exchange.heartbeatMs
    this.#dispatchedAt = parts.attempt.ports.now()
  }

  head(answer: OriginAnswer): boolean {
    const { attempt, engine, resolve, reject } = this.#parts
    noteHead(attempt, answer, this.#dispatchedAt)
    if (isClientAnswer(answer.status, engine)) return true
    // This status is no answer for the client, so the result is never null.
    classifyStatus(answer, engine).then(
      (failed) => resolve(failed!),
      (error: unknown) => giveUp(answer, error, reject),
    )
    return false
  }

  begun(answer: OriginAnswer, early: boolean): void {
    const { begun, resolve, reject } = this.#parts
    try {
      resolve(begun(answer, early))
    } catch (error) {
      giveUp(answer, error, reject)
    }
  }

  failed(error: unknown): void {
    this.#parts.reject(error)
  }
}

function giveUp(answer: OriginAnswer, error: unknown, reject: (error: unknown) => void): void {
  answer.discard()
  reject(error)
}

async function dispatchInSteps(
  attempt: AttemptContext,
  request: OriginRequest,
  begun: OnFirstByte,
): Promise<Response | AttemptFailed> {
  const { exchange, ports } = attempt
  const dispatchedAt = ports.now()
  const answer = await ports.origin.send(request)
  try {
    noteHead(attempt, answer, dispatchedAt)
    const failed = await classifyStatus(answer, request.target)
    return failed ?? begun(answer, await firstByte(answer, exchange.heartbeatMs, request.alarms))
  } catch (error) {
    answer.discard()
    throw error
  }
}

/**
 * Records the time to the response head. Without a stream the head comes with the body: it is no measure of the
 * connection.
 */
function noteHead({ stages, ports }: AttemptContext, answer: OriginAnswer, dispatchedAt: number): void {
  if (answer.sse) stages.add('connect', ports.now() - dispatchedAt)
}

/** Waits for the first byte. true: it has not come within `patienceMs`, so heartbeats must start. */
function firstByte(answer: OriginAnswer, patienceMs: number, alarms: Timers = defaultTimers): Promise<boolean> {
  const came = answer.firstByte()
  if (patienceMs <= 0 || !answer.sse || answer.status >= 300) return came.then(() => false)
  return new Promise((resolve, reject) => {
    const alarm = alarms.set(patienceMs, () => resolve(true))
    came
      .then(() => resolve(false))
      // After `patienceMs` the relay handles failures.
      .catch(reject)
      .finally(() => alarm.cancel())
  })
}
