/** One attempt: a request to one engine, until its response goes to the client or another engine may try. */
import { type AttemptFailure, endedAs, type Result } from '../core/contract/contract.ts'
import { Failure } from '../failure.ts'
import { OriginError, type EngineTarget, type OriginAnswer } from '../ports.ts'
import { dispatch } from './dispatch.ts'
import type { Exchange } from './exchange.ts'
import { classifyFirstEvent, type AttemptFailed, type AttemptContext } from './classify.ts'
import { attributeFailure } from './disagg/attribute-failure.ts'
import { runPreparatoryLegs } from './disagg/preparatory-legs.ts'
import { wholeLeg } from './disagg/legs.ts'
import { abortReason } from './abort-reason.ts'
import { headerOf } from './headers.ts'
import { AnswerRelay } from './relay/relay.ts'
import { passedOthers } from './via.ts'

/**
 * Resolves with the response for the client, or with the failure if another engine may try. Throws if none may. The
 * booking is released on every path. Whole, split and staged placements differ only before the final leg.
 */
export async function attempt(attemptContext: AttemptContext): Promise<Response | AttemptFailed> {
  const { exchange, ports, placed } = attemptContext
  const { engine } = placed
  let refusal: OriginAnswer | null = null
  let holder: EngineTarget | undefined
  let isDispatched = false
  try {
    const handed =
      placed.placement.kind === 'whole' ? { last: wholeLeg(attemptContext) } : await runPreparatoryLegs(attemptContext)
    if ('failed' in handed) return giveUp(attemptContext, handed.failed)
    const dispatchedAt = ports.now()
    if ('refusal' in handed) {
      refusal = handed.refusal
      return new AnswerRelay(attemptContext, { answer: refusal, dispatchedAt, engine: handed.engine, last: null }).pass(
        false,
      )
    }
    const { last } = handed
    holder = last.holder
    isDispatched = true
    const outcome = await dispatch(attemptContext, last, (answer, early) => {
      const failed = early ? null : classifyFirstEvent(answer, engine)
      return failed ?? new AnswerRelay(attemptContext, { answer, dispatchedAt, engine, last }).pass(early)
    })
    return 'failure' in outcome
      ? giveUp(attemptContext, await attributeFailure(attemptContext, outcome, holder))
      : outcome
  } catch (error) {
    refusal?.discard()
    if (exchange.signal.aborted) {
      const result = abortReason(exchange.scope)
      release(attemptContext, result, null)
      if (result === 'abandoned') throw new Failure('draining', 'This gateway is shutting down.')
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
      return giveUp(attemptContext, await attributeFailure(attemptContext, { engine, failure, status: null }, holder))
    }
    release(attemptContext, 'abandoned', null)
    throw error
  }
}

/** Without a stream the limit applies to the whole response, so reaching it is no failure of the engine. */
function failureOf({ failure }: OriginError, { stream }: Exchange): AttemptFailure {
  return failure === 'first_byte_timeout' && !stream ? 'answer_timeout' : failure
}

function giveUp(attemptContext: AttemptContext, failed: AttemptFailed): AttemptFailed {
  const isExcused =
    failed.failure === 'gateway_limit' || (failed.failure === 'loop' && loopsThroughOthers(attemptContext, failed))
  if (failed.failure !== 'loop') logFailedStatus(attemptContext, failed)
  release(attemptContext, isExcused ? 'abandoned' : 'engine_failed', isExcused ? null : failed)
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
