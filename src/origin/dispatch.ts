/** Sends the request of the final leg and waits for its first byte. */
import type { OriginAnswer, EngineRequest, ResponseHandler } from '../ports/origin.ts'
import type { Timers } from '../ports/timers.ts'
import { timersOf } from '../timers.ts'
import type { AttemptContext, FailedOutcome } from './attempt-context.ts'
import { classifyRefusal, isSuccess } from './classify.ts'
import { FencedSignal } from './pause/fenced-signal.ts'
import type { AcquiredPlacement } from './placement/acquired-placement.ts'
import type { AbortSignalLike } from '../ports/abort-signal.ts'
import { completions } from '../protocols/completions.ts'
import type { FinalLeg } from './disagg/final-leg.ts'

/** Handles an answer at its first byte, or (`early`) when heartbeats must start before it. */
export type OnFirstByte = (attempt: AttemptContext, answer: OriginAnswer, early: boolean) => Response | FailedOutcome

/** Called with the response headers. */
type OnHead = (
  attempt: AttemptContext,
  answer: OriginAnswer,
  target: EngineRequest['target'],
  dispatchedAt: number,
) => void

/**
 * Sends the request and waits for the first byte. Calls `onFirstByte` at the first byte, in the same tick if the
 * platform can. Rejects with an OriginError, with the signal's reason, or with the error that `onFirstByte` throws.
 */
export type SendStep = (
  attempt: AttemptContext,
  finalLeg: FinalLeg,
  onFirstByte: OnFirstByte,
) => Promise<Response | FailedOutcome>

/** Returns a step that sends the request itself. */
export const dispatchWith =
  (onHead: OnHead): SendStep =>
  (attempt, finalLeg, onFirstByte) => {
    const { origin } = attempt.ports
    const request = requestOf(attempt, finalLeg)
    if (origin.begin === undefined) return dispatchInSteps({ attempt, request, onHead, onFirstByte })
    return new Promise((resolve, reject) =>
      origin.begin!(request, new PendingDispatch({ attempt, request, onHead, onFirstByte, resolve, reject })),
    )
  }

/** The request for the engine. */
export function requestOf(
  { exchange, ports, placed, signal }: AttemptContext,
  { target, path, body, transform }: FinalLeg,
): EngineRequest {
  const { connectMs, firstByteMs, answerMs } = placed.route.pool.limits
  const headers =
    target.kind === 'gateway' && exchange.source.gatewayHeaders !== undefined
      ? [...exchange.headers, ...exchange.source.gatewayHeaders(placed.route, target, exchange.headers)]
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
    // A leg may be a request of another protocol, whose answer is transformed.
    protocol: transform === null ? exchange.protocol : completions,
    expectsJson: exchange.expectsJson,
    expectsStream: exchange.stream,
    signal: fencedBy(placed.booking, signal),
    timers: timersOf(exchange.scope, ports),
  }
}

function fencedBy(booking: AcquiredPlacement['booking'], client: AbortSignalLike): AbortSignalLike {
  const signal = new FencedSignal(client)
  booking.onFence(() => signal.fence())
  return signal
}

interface SendParts<Request> {
  readonly attempt: AttemptContext
  readonly request: Request
  readonly onHead: OnHead
  readonly onFirstByte: OnFirstByte
}

interface DispatchParts extends SendParts<Pick<EngineRequest, 'target' | 'path'>> {
  resolve(outcome: Response | FailedOutcome): void
  reject(error: unknown): void
}

/** One request that waits for the first byte of its answer. */
export class PendingDispatch implements ResponseHandler {
  readonly patienceMs: number
  readonly #parts: DispatchParts
  readonly #dispatchedAt: number

  constructor(parts: DispatchParts) {
    this.#parts = parts
    this.patienceMs = parts.attempt.exchange.heartbeatMs
    this.#dispatchedAt = parts.attempt.ports.now()
  }

  head(answer: OriginAnswer): boolean {
    const { attempt, request, onHead, resolve, reject } = this.#parts
    const { target: engine, path } = request
    onHead(attempt, answer, engine, this.#dispatchedAt)
    if (isSuccess(answer.status)) return true
    classifyRefusal(attempt, { answer, engine, path }).then(
      (failed) => (failed === null ? this.firstByte(answer, false) : resolve(failed)),
      (error: unknown) => rejectDispatch(answer, error, reject),
    )
    return false
  }

  firstByte(answer: OriginAnswer, early: boolean): void {
    const { attempt, onFirstByte, resolve, reject } = this.#parts
    try {
      resolve(onFirstByte(attempt, answer, early))
    } catch (error) {
      rejectDispatch(answer, error, reject)
    }
  }

  failed(error: unknown): void {
    this.#parts.reject(error)
  }
}

function rejectDispatch(answer: OriginAnswer, error: unknown, reject: (error: unknown) => void): void {
  answer.discard()
  reject(error)
}

async function dispatchInSteps({
  attempt,
  request,
  onHead,
  onFirstByte,
}: SendParts<EngineRequest>): Promise<Response | FailedOutcome> {
  const { exchange, ports } = attempt
  const dispatchedAt = ports.now()
  const answer = await ports.origin.send(request)
  try {
    onHead(attempt, answer, request.target, dispatchedAt)
    const failed = await classifyRefusal(attempt, { answer, engine: request.target, path: request.path })
    if (failed !== null) return failed
    const isEarly = isSuccess(answer.status) && (await firstByte(answer, exchange.heartbeatMs, request.timers))
    return onFirstByte(attempt, answer, isEarly)
  } catch (error) {
    answer.discard()
    throw error
  }
}

/**
 * Records the response head, and the time to it. Without a stream the head comes with the body: it is no measure of the
 * connection.
 */
export const recordHead: OnHead = ({ exchange, placed, stages, ports }, answer, { kind }, dispatchedAt) => {
  if (kind === 'gateway' && answer.status < 300) exchange.observer?.gatewayAnswered(placed.route, answer.headers)
  if (answer.sse) stages.add('connect', ports.now() - dispatchedAt)
}

export const dispatch = dispatchWith(recordHead)

/** Waits for the first byte. true: it has not come within `patienceMs`, so heartbeats must start. */
function firstByte(answer: OriginAnswer, patienceMs: number, timers: Timers): Promise<boolean> {
  const arrival = answer.firstByte()
  if (patienceMs <= 0 || !answer.sse) return arrival.then(() => false)
  return new Promise((resolve, reject) => {
    const timer = timers.set(patienceMs, () => resolve(true))
    arrival
      .then(() => resolve(false))
      // After `patienceMs` the relay handles failures.
      .catch(reject)
      .finally(() => timer.cancel())
  })
}
