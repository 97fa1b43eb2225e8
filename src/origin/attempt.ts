/** One attempt: a request to one engine, until its response goes to the client or another engine may try. */
import { type AttemptFailure, endedAs, type Result } from '../core/contract/outcome.ts'
import { drainFailure, Failure } from '../failure.ts'
import { type OriginAnswer, OriginError } from '../ports/origin.ts'
import type { AttemptContext, FailedOutcome } from './attempt-context.ts'
import { classifyFault, isSuccess } from './classify.ts'
import { attributeFailure } from './disagg/attribute-failure.ts'
import type { FinalLeg, LegResult } from './disagg/final-leg.ts'
import type { SendStep } from './dispatch.ts'
import { abortReason } from './abort-reason.ts'
import type { Exchange } from './exchange.ts'
import { headerOf } from './headers.ts'
import { legOf } from './retry/failed-leg.ts'
import { keepsAnswer } from './retry/kept-answer.ts'
import { forgetLacking } from './retry/lacking-engines.ts'
import { abortedUse } from './relay/aborted-use.ts'
import { AnswerRelay } from './relay/answer-relay.ts'
import { relayed, type RelayStep } from './relay/relay-steps.ts'
import { passedOthers } from './via.ts'

/**
 * Resolves with the response for the client, or with the failure if another engine may try. Throws if none may. The
 * booking is released on every path. Whole, split and staged placements differ only before the final leg.
 */
export const attemptWith =
  (steps: AttemptSteps) =>
  (attempt: AttemptContext): Promise<Response | FailedOutcome> =>
    runAttempt(attempt, steps)

interface AttemptSteps {
  /** Runs the early legs. */
  readonly legs: (attempt: AttemptContext) => LegResult | Promise<LegResult>
  readonly relay: RelayStep
  /** Sends the final leg. */
  readonly send: SendStep
}

async function runAttempt(attempt: AttemptContext, steps: AttemptSteps): Promise<Response | FailedOutcome> {
  const startedAt = attempt.ports.now()
  /** The final leg. null: early legs still run. */
  let dispatched: FinalLeg | null = null
  try {
    const preparing = steps.legs(attempt)
    const prepared = preparing instanceof Promise ? await preparing : preparing
    if ('failed' in prepared) return giveUp(attempt, prepared.failed)
    if ('errorAnswer' in prepared) return relayError(attempt, prepared, steps.relay)
    const { finalLeg } = prepared
    const dispatchedAt = attempt.ports.now()
    dispatched = finalLeg
    const outcome = await steps.send(attempt, finalLeg, (sent, answer, early) =>
      begin(sent, { answer, finalLeg, early, dispatchedAt, relay: steps.relay }),
    )
    return 'failure' in outcome ? giveUp(attempt, await attributeFailure(attempt, outcome, finalLeg.holder)) : outcome
  } catch (error) {
    if (attempt.race.lost) return giveUp(attempt, { engine: attempt.placed.engine, failure: 'busy', status: null })
    if (attempt.exchange.signal.aborted) throw aborted(attempt, error, startedAt)
    if (error instanceof OriginError) return broke(attempt, error, dispatched)
    release(attempt, 'abandoned', null)
    throw error
  }
}

/** Passes the error of an early leg to the client. */
function relayError(
  attempt: AttemptContext,
  { errorAnswer: answer, engine }: Extract<LegResult, { readonly errorAnswer: unknown }>,
  relay: RelayStep,
): Response {
  try {
    const input = { answer, dispatchedAt: attempt.ports.now(), engine, finalLeg: null }
    return relayed(new AnswerRelay(attempt, input), relay, false)
  } catch (error) {
    answer.discard()
    throw error
  }
}

/** Ends an attempt whose client has left, or that the gateway ends at shutdown. Returns the error of the request. */
function aborted(attempt: AttemptContext, cause: unknown, startedAt: number): Failure {
  const { exchange, ports, placed } = attempt
  const result = abortReason(exchange.scope)
  release(attempt, result, null)
  if (result === 'client_gone') exchange.record.used = abortedUse(attempt, placed.engine, ports.now() - startedAt)
  if (result === 'abandoned') return drainFailure(ports.random())
  return new Failure('client_gone', 'The client closed the request.', { cause })
}

/**
 * Another engine may try after a failure without an answer.
 * @param dispatched the final leg; null: an early leg has failed
 */
async function broke(attempt: AttemptContext, error: OriginError, dispatched: FinalLeg | null): Promise<FailedOutcome> {
  const { exchange, ports, placed } = attempt
  const { engine } = placed
  const failure = dispatched === null ? error.failure : attemptFailure(error, exchange)
  ports.log.warn('attempt_failed', {
    id: exchange.id,
    cluster: placed.route.cluster.id,
    engine: engine.id,
    ...legField(attempt, engine.id),
    failure,
    error,
  })
  return giveUp(attempt, await attributeFailure(attempt, { engine, failure, status: null }, dispatched?.holder))
}

interface BegunAnswer {
  readonly answer: OriginAnswer
  readonly finalLeg: FinalLeg
  /** The first byte is still to come, and heartbeats must start. */
  readonly early: boolean
  readonly dispatchedAt: number
  readonly relay: RelayStep
}

/** Judges the first bytes, then passes the answer to the client. */
function begin(attempt: AttemptContext, begun: BegunAnswer): Response | FailedOutcome {
  const { answer, finalLeg, early, dispatchedAt, relay } = begun
  const { exchange, ports, placed } = attempt
  const { engine } = placed
  const failed = early ? null : classifyFault(attempt, { answer, engine, path: finalLeg.path })
  const lost = failed ?? lostRace(attempt, answer, early)
  if (lost !== null) return lost
  if (isSuccess(answer.status)) forgetLacking({ engine, path: finalLeg.path }, exchange, ports)
  return relayed(new AnswerRelay(attempt, { answer, dispatchedAt, engine, finalLeg }), relay, early)
}

/** The failure of an attempt beside which another one answers the client. null: this one answers. */
function lostRace({ race, placed }: AttemptContext, answer: OriginAnswer, early: boolean): FailedOutcome | null {
  if (race.claim(answer, early) === 'won') return null
  answer.discard()
  // An engine that refuses the request is healthy.
  return { engine: placed.engine, failure: 'busy', status: answer.status }
}

/** Without a stream the limit applies to the whole response, so reaching it is no failure of the engine. */
function attemptFailure({ failure }: OriginError, { stream }: Exchange): AttemptFailure {
  return failure === 'first_byte_timeout' && !stream ? 'answer_timeout' : failure
}

function giveUp(attempt: AttemptContext, failed: FailedOutcome): FailedOutcome {
  // The end of an aborted attempt is no sign of a fault of its engine.
  const isLost = attempt.race.lost
  const isExcused =
    isLost || failed.failure === 'gateway_limit' || (failed.failure === 'loop' && loopsThroughOthers(attempt, failed))
  if (failed.failure !== 'loop' && !isLost) logFailedStatus(attempt, failed)
  if (keepsAnswer(failed) && !isLost) release(attempt, 'engine_refused', failed)
  else release(attempt, isExcused ? 'abandoned' : 'engine_failed', isExcused ? null : failed)
  return failed
}

/** Field of a log line with the leg of a split request. */
function legField({ placed }: AttemptContext, engine: string): { readonly leg?: string } {
  const leg = legOf(placed.placement, engine)
  return leg === null ? {} : { leg }
}

/**
 * Logs a failure with a status; others were logged with their cause. Answers without a fault at debug: a full fleet
 * sends them to each request.
 */
function logFailedStatus(attempt: AttemptContext, { engine, failure, status }: FailedOutcome): void {
  const { exchange, ports, placed } = attempt
  if (status === null) return
  const next = status === 401 ? { next: "The engine rejected the gateway's API key. Set `key` of this engine." } : {}
  ports.log[failure === 'busy' || keepsAnswer({ failure }) ? 'debug' : 'warn']('attempt_failed', {
    id: exchange.id,
    cluster: placed.route.cluster.id,
    engine: engine.id,
    ...legField(attempt, engine.id),
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
  { engine: { id, url } }: FailedOutcome,
): boolean {
  ports.log.warn('loop_detected', {
    id: exchange.id,
    cluster: placed.route.cluster.id,
    engine: id,
    url,
    next: 'The URL points to a gateway that the request already passed. Configure the URL of the engine itself.',
  })
  return passedOthers(headerOf(exchange.headers, 'via'))
}

function release({ exchange, placed, stages }: AttemptContext, result: Result, failed: FailedOutcome | null): void {
  const released = placed.booking.release({
    ...endedAs(result),
    failure: failed === null || keepsAnswer(failed) ? null : failed.failure,
    failedEngine: failed?.engine.id ?? null,
    status: failed?.status ?? null,
    stages: stages.snapshot(),
  })
  if (released !== null) exchange.scope.background(released)
}
