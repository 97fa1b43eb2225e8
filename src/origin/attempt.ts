/** One attempt: a request to one engine, until its response goes to the client or another engine may try. */
import { type AttemptFailure, endedAs, type Result } from '../core/contract/contract.ts'
import { drainFailure, Failure } from '../failure.ts'
import {
  OriginError,
  type EngineTarget,
  type OriginAnswer,
  type Timers,
  type ResponseHandler,
  type OriginRequest,
} from '../ports.ts'
import { type Exchange, abortReason } from './exchange.ts'
import {
  classifyFirstEvent,
  type AttemptFailed,
  type AttemptContext,
  isClientAnswer,
  classifyStatus,
} from './classify.ts'
import { runPreparatoryLegs } from './disagg/preparatory-legs.ts'
import { wholeLeg, attributeFailure, type FinalLeg } from './disagg/legs.ts'
import { headerOf } from './headers.ts'
import { AnswerRelay } from './relay/relay.ts'
import { passedOthers } from './via.ts'
import { defaultTimers } from './timers.ts'

/**
 * Resolves with the response for the client, or with the failure if another engine may try. Throws if none may. The
 * booking is released on every path. Whole, split and staged placements differ only before the final leg.
 */
export async function runAttempt(attempt: AttemptContext): Promise<Response | AttemptFailed> {
  const { exchange, ports, placed } = attempt
  const { engine } = placed
  let refusal: OriginAnswer | null = null
  let holder: EngineTarget | undefined
  let isDispatched = false
  try {
    const handed = placed.placement.kind === 'whole' ? { last: wholeLeg(attempt) } : await runPreparatoryLegs(attempt)
    if ('failed' in handed) return giveUp(attempt, handed.failed)
    const dispatchedAt = ports.now()
    if ('refusal' in handed) {
      refusal = handed.refusal
      return new AnswerRelay(attempt, { answer: refusal, dispatchedAt, engine: handed.engine, last: null }).pass(false)
    }
    const { last } = handed
    holder = last.holder
    isDispatched = true
    const outcome = await dispatch(attempt, last, (answer, early) => {
      const failed = (early ? null : classifyFirstEvent(answer, engine)) ?? unclaimed(attempt, answer, early)
      return failed ?? new AnswerRelay(attempt, { answer, dispatchedAt, engine, last }).pass(early)
    })
    return 'failure' in outcome ? giveUp(attempt, await attributeFailure(attempt, outcome, holder)) : outcome
  } catch (error) {
    refusal?.discard()
    if (attempt.race?.lost === true) return giveUp(attempt, { engine, failure: 'busy', status: null })
    if (exchange.signal.aborted) {
      const result = abortReason(exchange.scope)
      release(attempt, result, null)
      if (result === 'abandoned') throw drainFailure(ports.random())
      throw new Failure('client_gone', 'The client closed the request.', { cause: error })
    }
    if (error instanceof OriginError) {
      const failure = isDispatched ? failureOf(error, exchange) : error.failure
      ports.log.warn('attempt_failed', {
        id: exchange.id,
        cluster: placed.route.cluster.id,
        engine: engine.id,
        failure,
        error,
      })
      return giveUp(attempt, await attributeFailure(attempt, { engine, failure, status: null }, holder))
    }
    release(attempt, 'abandoned', null)
    throw error
  }
}

/** The failure of an attempt beside which another one answers the client. null: this one answers. */
function unclaimed({ race, placed }: AttemptContext, answer: OriginAnswer, early: boolean): AttemptFailed | null {
  if (race === undefined || race.claim(answer, early) === 'won') return null
  answer.discard()
  // An engine that refuses the request is healthy.
  return { engine: placed.engine, failure: 'busy', status: answer.status }
}

/** Without a stream the limit applies to the whole response, so reaching it is no failure of the engine. */
function failureOf({ failure }: OriginError, { stream }: Exchange): AttemptFailure {
  return failure === 'first_byte_timeout' && !stream ? 'answer_timeout' : failure
}

function giveUp(attempt: AttemptContext, failed: AttemptFailed): AttemptFailed {
  // The end of an aborted attempt says nothing of its engine.
  const isLost = attempt.race?.lost === true
  const isExcused =
    isLost || failed.failure === 'gateway_limit' || (failed.failure === 'loop' && loopsThroughOthers(attempt, failed))
  if (failed.failure !== 'loop' && !isLost) logFailedStatus(attempt, failed)
  release(attempt, isExcused ? 'abandoned' : 'engine_failed', isExcused ? null : failed)
  return failed
}

/**
 * Logs a failure with a status; others were logged with their cause. `busy` at debug: a full fleet sends it to each
 * request.
 */
function logFailedStatus(
  { exchange, ports, placed }: AttemptContext,
  { engine, failure, status }: AttemptFailed,
): void {
  if (status === null) return
  const next = status === 401 ? { next: "It does not take the gateway's key: give the engine its `key`." } : {}
  ports.log[failure === 'busy' ? 'debug' : 'warn']('attempt_failed', {
    id: exchange.id,
    cluster: placed.route.cluster.id,
    engine: engine.id,
    failure,
    status,
    ...next,
  })
}

/**
 * Logs the address that leads back to a gateway. true: the request came through other gateways, or its client claims
 * so. The loop may then be of their making, so no circuit counts it. Without other gateways the engine's address is
 * wrong for everybody.
 */
function loopsThroughOthers(
  { exchange, ports, placed }: AttemptContext,
  { engine: { id, url } }: AttemptFailed,
): boolean {
  ports.log.warn('loop_found', {
    id: exchange.id,
    cluster: placed.route.cluster.id,
    engine: id,
    url,
    next: 'It leads back to a gateway that the request has passed. Configure the address of the engine itself.',
  })
  return passedOthers(headerOf(exchange.headers, 'via'))
}

function release({ exchange, placed, stages }: AttemptContext, result: Result, failed: AttemptFailed | null): void {
  const released = placed.booking.release({
    ...endedAs(result),
    failure: failed?.failure ?? null,
    failedEngine: failed?.engine.id ?? null,
    status: failed?.status ?? null,
    stages: stages.snapshot(),
  })
  if (released !== null) exchange.scope.background(released)
}

/* Sends the request of the final leg and waits for its first byte. */

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

function requestOf({ exchange, ports, placed, race }: AttemptContext, { target, path, body }: FinalLeg): OriginRequest {
  const { connectMs, firstByteMs, answerMs } = placed.route.pool.limits
  const headers =
    target.isGateway === true && exchange.forGateway !== undefined
      ? [...exchange.headers, ...exchange.forGateway(placed.route, target)]
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
    signal: race?.signal ?? exchange.signal,
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
    noteHead(attempt, answer, engine, this.#dispatchedAt)
    if (isClientAnswer(answer.status, engine)) return true
    // This status is no answer for the client, so the result is never null.
    classifyStatus(answer, engine).then(
      (failed) => resolve(failed!),
      (error: unknown) => dispatchGiveUp(answer, error, reject),
    )
    return false
  }

  begun(answer: OriginAnswer, early: boolean): void {
    const { begun, resolve, reject } = this.#parts
    try {
      resolve(begun(answer, early))
    } catch (error) {
      dispatchGiveUp(answer, error, reject)
    }
  }

  failed(error: unknown): void {
    this.#parts.reject(error)
  }
}

function dispatchGiveUp(answer: OriginAnswer, error: unknown, reject: (error: unknown) => void): void {
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
    noteHead(attempt, answer, request.target, dispatchedAt)
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
function noteHead(
  { exchange, placed, stages, ports }: AttemptContext,
  answer: OriginAnswer,
  { isGateway }: OriginRequest['target'],
  dispatchedAt: number,
): void {
  if (isGateway === true && answer.status < 300) exchange.gatewayAnswered?.(placed.route, answer.headers)
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
