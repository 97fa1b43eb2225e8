/** The answer to a request whose attempts have all failed. */
import type { StageTimes } from '../../core/contract/stages.ts'
import type { Refusal } from '../../core/contract/refusal.ts'
import { failureOfAll } from './client-failure.ts'
import { endExchange, type Exchange } from '../exchange.ts'
import { discardKeptAnswers, keepsAnswer } from './kept-answer.ts'
import { NOT_PLACED } from './rejected-exchange.ts'
import { AnswerRelay } from '../relay/answer-relay.ts'
import { passed, relayed } from '../relay/relay-steps.ts'
import { attemptOf, type RetryState } from './retry-state.ts'

/**
 * The answer of an engine for which the request is too long; or, if all lack the route, of the gateway or the last
 * one. Throws if there is none.
 */
export function answerOfAll(exchange: Exchange, retry: RetryState, refusal: Refusal | null): Response {
  const {
    ports,
    failed: { all: failed },
  } = retry
  const tooLong = failed.findLast(({ failure }) => failure === 'too_long')
  const used = tooLong ?? (failed.every(keepsAnswer) ? failed.at(-1) : undefined)
  if (used?.failure === 'lacks_route' && exchange.source.ownAnswer !== undefined) {
    discardKeptAnswers(failed)
    return ownAnswerOf(exchange, exchange.source.ownAnswer(), retry.stages.snapshot(), ports.now())
  }
  discardKeptAnswers(failed, used?.answer)
  if (used?.answer === undefined) throw failureOfAll(exchange, failed, refusal)
  const attempt = { ...attemptOf(exchange, retry, used.placed), earlier: failed.filter((one) => one !== used) }
  const { answer, engine } = used
  return relayed(new AnswerRelay(attempt, { answer, dispatchedAt: ports.now(), engine, finalLeg: null }), passed, false)
}

function ownAnswerOf(exchange: Exchange, answer: Response, stages: StageTimes, now: number): Response {
  Object.assign(exchange.record, NOT_PLACED)
  endExchange(exchange, { status: answer.status, result: 'complete', failedAttempts: [], stages, usage: null }, now)
  return answer
}
