/**
 * Retry loop: tries engines until one answers. A failure before the first byte costs an attempt, after it the stream.
 */
import { Failure } from '../failure.ts'
import { abortReason } from './abort-reason.ts'
import { answerOfAll } from './retry/answer-of-all.ts'
import type { ProbeSoon } from './attempt-context.ts'
import type { CurrentRoutes } from './current-routes.ts'
import { endExchange, type Exchange } from './exchange.ts'
import { FailedAttempts } from './retry/failed-attempts.ts'
import { exonerate, reportFailure } from './retry/failure-reports.ts'
import { discardKeptAnswers } from './retry/kept-answer.ts'
import { enginesWithoutRoute, learnLacking } from './retry/lacking-engines.ts'
import { acquirePlacement } from './placement/acquire.ts'
import type { PoolDigests } from './digests/pool-digests.ts'
import type { PoolRoute } from './pool-route.ts'
import { type PoolSteps, stepsByPool } from './pool-steps.ts'
import { NOT_PLACED } from './retry/rejected-exchange.ts'
import { attemptOf, type RetryState } from './retry/retry-state.ts'
import { StageTimer } from './stage-timer.ts'
import type { UpstreamPorts } from './upstream-ports.ts'

/** Upper bound: the retry budget of the pool and the number of engines end the loop earlier. */
const MAX_ATTEMPTS = 16

/**
 * Returns the response of the first engine that answers. Throws a Failure if none does, if all pools refuse, or if
 * the client disconnects. Releases every booking.
 */
export function forward(
  exchange: Exchange,
  ports: UpstreamPorts,
  digests: PoolDigests,
  {
    probeSoon,
    currentRoutes,
    stepsOf = DEFAULT_STEPS,
    maxAttempts = MAX_ATTEMPTS,
    maxFinalLegs = MAX_ATTEMPTS,
  }: ForwardOptions = {},
): Promise<Response> {
  const stages = new StageTimer(exchange.stages)
  const failed = new FailedAttempts(enginesWithoutRoute(exchange, ports))
  const retry: RetryState = {
    ports,
    digests,
    probeSoon,
    currentRoutes,
    stepsOf,
    maxAttempts,
    maxFinalLegs,
    stages,
    failed,
    refusalReason: null,
  }
  return retryLoop(exchange, retry)
}

/** Completes the record of a request without an answer of an engine, and throws its error. */
function endRefused(exchange: Exchange, retry: RetryState, error: unknown): never {
  const { ports, stages, failed, refusalReason } = retry
  const result = exchange.signal.aborted ? abortReason(exchange.scope) : 'refused'
  if (result === 'refused') exonerate(exchange, retry)
  const unexpected = result === 'client_gone' ? 499 : 500
  const refusedStatus = error instanceof Failure ? error.shape.status : unexpected
  // The error is an event of a stream that has begun.
  const status = exchange.longWait?.hasBegunAnswer === true ? 200 : refusedStatus
  Object.assign(exchange.record, NOT_PLACED, refusalReason === null ? {} : { notes: [`refused=${refusalReason}`] })
  const failedAttempts = failed.all.map(({ failure }) => failure)
  endExchange(exchange, { status, result, failedAttempts, stages: stages.snapshot(), usage: null }, ports.now())
  throw error
}

interface ForwardOptions {
  /** Called with each engine that failed an attempt, so that its health is checked soon. */
  readonly probeSoon?: ProbeSoon
  /** Absent: the configuration does not change while requests run. */
  readonly currentRoutes?: CurrentRoutes
  readonly stepsOf?: (route: PoolRoute) => PoolSteps
  /** Attempts of a request, at most. */
  readonly maxAttempts?: number
  /** Attempts whose early legs have succeeded, at most. */
  readonly maxFinalLegs?: number
}

const DEFAULT_STEPS = stepsByPool({ comments: true, choosesClusters: true })

async function retryLoop(exchange: Exchange, retry: RetryState): Promise<Response> {
  const { ports, stepsOf, maxAttempts, maxFinalLegs, failed } = retry
  try {
    while (failed.all.length < maxAttempts && failed.finalLegs < maxFinalLegs && !failed.isTooLate) {
      const placing = acquirePlacement(exchange, retry, failed.history())
      const placed = placing instanceof Promise ? await placing : placing
      if ('refusal' in placed) {
        retry.refusalReason = placed.refusal.reason
        if (!failed.shiftBlame()) return answerOfAll(exchange, retry, placed.refusal)
        continue
      }
      const steps = stepsOf(placed.route)
      const outcome = await (failed.all.length === 0 ? steps.first : steps.again)(attemptOf(exchange, retry, placed))
      if (!('failure' in outcome || 'failures' in outcome)) {
        learnLacking(failed.all, ports)
        discardKeptAnswers(failed.all)
        return outcome
      }
      retry.refusalReason = null
      for (const one of 'failures' in outcome ? outcome.failures : [{ outcome, placed }]) {
        failed.add(one)
        reportFailure(one, exchange, retry)
      }
    }
    return answerOfAll(exchange, retry, null)
  } catch (error) {
    return endRefused(exchange, retry, error)
  }
}
