/** The last leg's request, and the moment its answer begins. */
import type { Timers, ResponseHandler, OriginAnswer, OriginRequest } from '../ports.ts'
import { isClientAnswer, classifyStatus, type AttemptFailed, type AttemptContext } from './classify.ts'
import type { FinalLeg } from './disagg/legs.ts'
import { defaultTimers } from './timers.ts'

/** Takes an answer that has begun, or (`early`) one whose client is to be kept warm from here; says what became of it. */
export type OnFirstByte = (answer: OriginAnswer, early: boolean) => Response | AttemptFailed

/**
 * Asks the engine and waits for its first byte. `begun` is called at once when it is there, in the same tick where the
 * platform can. Rejects with an OriginError, with the signal's reason, or with what `begun` throws.
 */
export function dispatch(
  attempt: AttemptContext,
  last: FinalLeg,
  begun: OnFirstByte,
): Promise<Response | AttemptFailed> {
  const { origin } = attempt.ports
  const request = requestOf(attempt, last)
  if (origin.begin === undefined) return askInSteps(attempt, request, begun)
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
    // An engine sends an answer that does not stream once all of it is there.
    firstByteMs: exchange.stream ? firstByteMs : answerMs,
    signal: exchange.signal,
    alarms: exchange.scope.alarms ?? ports.alarms,
  }
}

interface WaitingParts {
  readonly attempt: AttemptContext
  readonly engine: OriginRequest['target']
  readonly begun: OnFirstByte
  resolve(outcome: Response | AttemptFailed): void
  reject(error: unknown): void
}

class PendingDispatch implements ResponseHandler {
  readonly patienceMs: number
  readonly #parts: WaitingParts
  readonly #dispatchedAt: number

  constructor(parts: WaitingParts) {
    this.#parts = parts
    this.patienceMs = parts.attempt.exchange.heartbeatMs
    this.#dispatchedAt = parts.attempt.ports.now()
  }

  head(answer: OriginAnswer): boolean {
    const { attempt, engine, resolve, reject } = this.#parts
    noteHead(attempt, answer, this.#dispatchedAt)
    if (isClientAnswer(answer.status, engine)) return true
    // No status that is an answer: there is always a failure in it.
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

async function askInSteps(
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

/** The head of an answer that is no stream comes with its body: it says nothing about the connection. */
function noteHead({ stages, ports }: AttemptContext, answer: OriginAnswer, dispatchedAt: number): void {
  if (answer.sse) stages.add('connect', ports.now() - dispatchedAt)
}

/** Waits for the first byte. true: it is still to come, and the client is to be kept warm by heartbeats from here. */
function firstByte(answer: OriginAnswer, patienceMs: number, alarms: Timers = defaultTimers): Promise<boolean> {
  const came = answer.firstByte()
  if (patienceMs <= 0 || !answer.sse || answer.status >= 300) return came.then(() => false)
  return new Promise((resolve, reject) => {
    const alarm = alarms.set(patienceMs, () => resolve(true))
    came
      .then(() => resolve(false))
      // Once patience is over the reply hears of failures.
      .catch(reject)
      .finally(() => alarm.cancel())
  })
}
