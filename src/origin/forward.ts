/**
 * Retry loop: tries engines until one answers. A failure before the first byte costs an attempt, after it the stream.
 */
import type { StageTimes } from '../core/contract/stages.ts'
import type { Refusal, RefusalReason } from '../core/contract/refusal.ts'
import { bookingKey } from '../core/pool/bookings.ts'
import type { OpenRecord } from '../core/reports/request-record.ts'
import { Failure } from '../failure.ts'
import type { Ports } from '../ports.ts'
import type { EngineTarget } from '../ports/engine-target.ts'
import { acquirePlacement } from './placement/acquire.ts'
import type { AcquiredPlacement } from './placement/acquired-placement.ts'
import { alone, type AttemptContext, type FailedAttempt, type Suspect } from './attempt-context.ts'
import { failureOfAll, isGatewayFailure } from './client-failure.ts'
import type { PoolDigests } from './pool-digests.ts'
import { abortReason } from './abort-reason.ts'
import { endExchange, type Exchange } from './exchange.ts'
import type { PoolRoute } from './pool-route.ts'
import { FailedAttempts } from './failed-attempts.ts'
import { keepsAnswer } from './kept-answer.ts'
import { discardLacking, enginesWithoutRoute, learnLacking } from './lacking-engines.ts'
import { type PoolSteps, stepsByPool } from './pool-steps.ts'
import { AnswerRelay } from './relay/answer-relay.ts'
import { passed, relayed } from './relay/relay-steps.ts'
import { serverOf } from './rank-targets.ts'
import { StageTimer } from './stage-timer.ts'

/** Upper bound: the retry budget of the pool and the number of engines end the loop earlier. */
const MAX_ATTEMPTS = 16

/**
 * Returns the response of the first engine that answers. Throws a Failure if none does, if the cluster refuses, or if
 * the client disconnects. Releases every booking.
 */
export async function forward(
  exchange: Exchange,
  ports: Ports,
  digests: PoolDigests,
  { suspect, stepsOf = DEFAULT_STEPS, maxAttempts = MAX_ATTEMPTS }: ForwardOptions = {},
): Promise<Response> {
  const stages = new StageTimer(exchange.stages)
  const failed = new FailedAttempts(enginesWithoutRoute(exchange, ports))
  const placeOf = (route: PoolRoute): PoolSteps['place'] => stepsOf(route).place
  const retry: RetryState = { ports, digests, suspect, stepsOf, placeOf, maxAttempts, stages, failed, refused: null }
  try {
    return await retryLoop(exchange, retry)
  } catch (error) {
    const result = exchange.signal.aborted ? abortReason(exchange.scope) : 'refused'
    if (result === 'refused') exonerate(exchange, retry)
    const unexpected = result === 'client_gone' ? 499 : 500
    const status = error instanceof Failure ? error.shape.status : unexpected
    const { refused } = retry
    Object.assign(exchange.record, NOT_PLACED, refused === null ? {} : { notes: [`refused=${refused}`] })
    const failedAttempts = failed.all.map(({ failure }) => failure)
    endExchange(exchange, { status, result, failedAttempts, stages: stages.snapshot(), usage: null }, ports.now())
    throw error
  }
}

/** Ends an exchange that was rejected before it was forwarded. */
export function rejectExchange(exchange: Exchange, failure: Failure, now: number): void {
  Object.assign(exchange.record, NOT_PLACED)
  const { status } = failure.shape
  endExchange(exchange, { status, result: 'refused', failedAttempts: [], stages: exchange.stages, usage: null }, now)
}

/** Fields of the record of a request that no engine answered. */
const NOT_PLACED: Partial<OpenRecord> = {
  cluster: null,
  engine: null,
  prefillEngine: null,
  placement: null,
  policy: null,
  notes: [],
  predictedTtftMs: null,
}

interface ForwardOptions {
  /** Called with each engine that failed an attempt, so that its health is checked soon. */
  readonly suspect?: Suspect
  readonly stepsOf?: (route: PoolRoute) => PoolSteps
  /** Attempts of a request, at most. */
  readonly maxAttempts?: number
}

const DEFAULT_STEPS = stepsByPool({ comments: true, choosesClusters: true })

interface RetryState {
  readonly ports: Ports
  readonly digests: PoolDigests
  readonly suspect: Suspect | undefined
  readonly stepsOf: (route: PoolRoute) => PoolSteps
  readonly placeOf: AttemptContext['placeOf']
  readonly maxAttempts: number
  readonly stages: StageTimer
  readonly failed: FailedAttempts
  /** Why the clusters refused another attempt; null: they did not. */
  refused: RefusalReason | null
}

async function retryLoop(exchange: Exchange, retry: RetryState): Promise<Response> {
  const { ports, digests, stepsOf, placeOf, maxAttempts, stages, failed } = retry
  while (failed.all.length < maxAttempts && !failed.isTooLate) {
    const placed = await acquirePlacement(exchange, ports, digests, { ...failed.history(), stages, placeOf })
    if ('refused' in placed) {
      retry.refused = placed.refused.reason
      if (!failed.shiftBlame()) return answerOfAll(exchange, retry, placed.refused)
      continue
    }
    const steps = stepsOf(placed.route)
    const outcome = await (failed.all.length === 0 ? steps.first : steps.again)(attemptOf(exchange, retry, placed))
    if (!('failure' in outcome || 'failures' in outcome)) {
      learnLacking(failed.all, ports)
      discardLacking(failed.all)
      return outcome
    }
    retry.refused = null
    for (const one of 'failures' in outcome ? outcome.failures : [{ outcome, placed }]) {
      failed.add(one)
      report(one, exchange, retry)
    }
  }
  return answerOfAll(exchange, retry, null)
}

/** Reports a failed engine to health checks. */
function report(
  { outcome, placed: { route } }: FailedAttempt,
  exchange: Exchange,
  { ports, suspect }: RetryState,
): void {
  if (outcome.failure === 'answer_timeout' || outcome.failure === 'paused') return
  const server = serverOf(outcome.engine)
  if (outcome.isAway === true) setAside(exchange, ports, route, server)
  if (!isGatewayFailure(outcome) && !keepsAnswer(outcome)) suspect?.(route, server)
}

function ownAnswerOf(exchange: Exchange, answer: Response, stages: StageTimes, now: number): Response {
  Object.assign(exchange.record, NOT_PLACED)
  endExchange(exchange, { status: answer.status, result: 'complete', failedAttempts: [], stages, usage: null }, now)
  return answer
}

/**
 * The answer of an engine for which the request is too long; or, if all lack the route, of the gateway or the last
 * one. Throws if there is none.
 */
function answerOfAll(exchange: Exchange, retry: RetryState, refusal: Refusal | null): Response {
  const {
    ports,
    failed: { all: failed },
  } = retry
  const tooLong = failed.findLast(({ failure }) => failure === 'too_long')
  const used = tooLong ?? (failed.every(keepsAnswer) ? failed.at(-1) : undefined)
  if (used?.failure === 'lacks_route' && exchange.ownAnswer !== undefined) {
    discardLacking(failed)
    return ownAnswerOf(exchange, exchange.ownAnswer(), retry.stages.snapshot(), ports.now())
  }
  discardLacking(failed, used?.answer)
  if (used?.answer === undefined) throw failureOfAll(exchange, failed, refusal)
  const attempt = { ...attemptOf(exchange, retry, used.placed), earlier: failed.filter((one) => one !== used) }
  const { answer, engine } = used
  return relayed(new AnswerRelay(attempt, { answer, dispatchedAt: ports.now(), engine, last: null }), passed, false)
}

const attemptOf = (
  exchange: Exchange,
  { ports, digests, suspect, placeOf, stages, failed }: RetryState,
  placed: AcquiredPlacement,
): AttemptContext => ({
  exchange,
  ports,
  placed,
  stages,
  earlier: [...failed.all],
  digests,
  suspect,
  signal: exchange.signal,
  race: alone,
  placeOf,
})

/** The engine loads, is paused or is retired: like one that sleeps, it gets no requests before its next good probe. */
function setAside({ scope }: Exchange, ports: Ports, { cluster, pool }: PoolRoute, { id: engine }: EngineTarget): void {
  const at = ports.now()
  const signal = { kind: 'probe', engine, at, sentAt: at, healthy: true, asleep: true, stats: null } as const
  scope.background(ports.pool(cluster.id, pool.model).observe([signal]))
}

/**
 * Withdraws circuit failures of a poison request: if two engines answered 5xx and none succeeded, the request is at
 * fault. Broken connections still count. If the retry budget allowed one attempt only, the failure is withdrawn as
 * doubtful: a flood of poison requests must not open circuits, and a faulty engine fails enough requests that can be
 * retried.
 */
function exonerate({ id, scope }: Exchange, { ports, failed, refused }: RetryState): void {
  const isBudgetSpent = refused === 'retry_budget'
  const serverErrors = failed.all
    .map((one, at) => ({ ...one, booking: bookingKey({ id, attempt: at }) }))
    .filter(({ failure }) => failure === 'status_5xx')
  const isProven = new Set(serverErrors.map(({ engine }) => serverOf(engine))).size > 1
  if (isProven) ports.log.warn('poison_request', { id })
  for (const { placed, engine, booking } of serverErrors) {
    const { cluster, pool } = placed.route
    if (!isProven && !(isBudgetSpent && hasRetries(pool))) continue
    const signal = { kind: 'excused', engine: engine.id, booking } as const
    scope.background(ports.pool(cluster.id, pool.model).observe([isProven ? signal : { ...signal, doubtful: true }]))
  }
}

/** Without retries, each failure must count: there is no second one to compare it with. */
const hasRetries = ({ retry }: PoolRoute['pool']): boolean => retry.share > 0 || retry.minPerS > 0
