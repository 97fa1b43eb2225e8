/**
 * Retry loop: tries engines until one answers. A failure before the first byte costs an attempt, after it the stream.
 */
import type { EarlyLegRole } from '../core/contract/legs.ts'
import type { StageTimes } from '../core/contract/stages.ts'
import type { Placement } from '../core/contract/placement.ts'
import type { Refusal, RefusalReason } from '../core/contract/refusal.ts'
import { bookingKey } from '../core/pool/bookings.ts'
import type { OpenRecord } from '../core/reports/request-record.ts'
import { Failure } from '../failure.ts'
import type { Ports } from '../ports.ts'
import type { EngineTarget } from '../ports/engine-target.ts'
import { acquirePlacement } from './acquire.ts'
import type { AcquiredPlacement } from './acquired-placement.ts'
import { alone, type AttemptContext, type AttemptFailed, type FailedAttempt, type Suspect } from './attempt-context.ts'
import { failureOfAll, isGatewayFailure, unreached } from './client-failure.ts'
import type { PoolDigests } from './pool-digests.ts'
import { abortReason } from './abort-reason.ts'
import { endExchange, type Exchange } from './exchange.ts'
import type { PoolRoute } from './pool-route.ts'
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
  { suspect, stepsOf = DEFAULT_STEPS }: ForwardOptions = {},
): Promise<Response> {
  const stages = new StageTimer(exchange.stages)
  const failed: RoutedFailure[] = []
  const retry: RetryState = { ports, digests, suspect, stepsOf, stages, failed, refused: null }
  try {
    return await retryLoop(exchange, retry)
  } catch (error) {
    const result = exchange.signal.aborted ? abortReason(exchange.scope) : 'refused'
    if (result === 'refused') exonerate(exchange, retry)
    const unexpected = result === 'client_gone' ? 499 : 500
    const status = error instanceof Failure ? error.shape.status : unexpected
    const { refused } = retry
    Object.assign(exchange.record, NOT_PLACED, refused === null ? {} : { notes: [`refused=${refused}`] })
    const failedAttempts = failed.map(({ failure }) => failure)
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
}

const DEFAULT_STEPS = stepsByPool({ comments: true, choosesClusters: true })

interface RetryState {
  readonly ports: Ports
  readonly digests: PoolDigests
  readonly suspect: Suspect | undefined
  readonly stepsOf: (route: PoolRoute) => PoolSteps
  readonly stages: StageTimer
  /** Failed attempts so far. */
  readonly failed: RoutedFailure[]
  /** Why the clusters refused another attempt; null: they did not. */
  refused: RefusalReason | null
}

interface RoutedFailure extends AttemptFailed {
  readonly placed: AcquiredPlacement
  /** The leg that failed; null: the final one. */
  readonly leg: EarlyLegRole | null
}

function legOf(placement: Placement, engine: string): EarlyLegRole | null {
  if (placement.kind === 'whole') return null
  if (engine === placement.prefill) return 'prefill'
  return placement.kind === 'staged' && placement.encode.includes(engine) ? 'encode' : null
}

/** Legs that failed before the final one; null: a final leg failed. */
function failedLegsOf(failed: readonly RoutedFailure[]): readonly EarlyLegRole[] | null {
  if (failed.length === 0) return []
  const legs = new Set(failed.map(({ leg }) => leg))
  return legs.has(null) ? null : ([...legs] as EarlyLegRole[])
}

/** The attempt caused no work on an engine, so another one is no retry. */
const isMoved = ({ engine, failure }: RoutedFailure): boolean =>
  failure === 'busy' ||
  keepsAnswer({ failure }) ||
  (engine.isGateway === true && (failure === 'loop' || unreached.has(failure)))

/** Largest context of the engines that refused the request as too long. null: none did. */
function largestContext(failed: readonly RoutedFailure[]): number | null {
  const limits = failed.flatMap(({ limitTokens }) => limitTokens ?? [])
  return limits.length === 0 ? null : Math.max(...limits)
}

/** A decode engine that failed on KV data of a prefill engine: either of the two may be at fault. */
interface SplitBlame {
  readonly cluster: string
  readonly decode: string
  readonly prefill: string
}

async function retryLoop(exchange: Exchange, retry: RetryState): Promise<Response> {
  const { ports, digests, stepsOf, stages, failed } = retry
  const placeOf = (route: PoolRoute): PoolSteps['place'] => stepsOf(route).place
  const avoid = enginesWithoutRoute(exchange, ports)
  let blame: SplitBlame | null = null
  let isLastTry = false
  while (failed.length < MAX_ATTEMPTS) {
    const placed = await acquirePlacement(exchange, ports, digests, {
      attempt: failed.length,
      moved: failed.length > 0 && failed.every((one) => isMoved(one) || isGatewayFailure(one)),
      failedLegs: failedLegsOf(failed),
      avoid,
      beyondContextTokens: largestContext(failed),
      stages,
      placeOf,
    })
    if ('refused' in placed) {
      retry.refused = placed.refused.reason
      if (blame === null) return answerOfAll(exchange, retry, placed.refused)
      // No other decode engine is left: try this one again, with another prefill engine or alone.
      const { cluster, decode, prefill } = blame
      avoid.set(cluster, [...avoid.get(cluster)!.filter((id) => id !== decode), prefill])
      blame = null
      isLastTry = true
      continue
    }
    const steps = stepsOf(placed.route)
    const outcome = await (failed.length === 0 ? steps.first : steps.again)(attemptOf(exchange, retry, placed))
    if (!('failure' in outcome || 'failures' in outcome)) {
      learnLacking(failed, ports)
      discardLacking(failed)
      return outcome
    }
    retry.refused = null
    for (const one of 'failures' in outcome ? outcome.failures : [{ outcome, placed }])
      addFailure(exchange, one, retry, avoid)
    // Another engine would need as long, and the client has waited for the whole limit.
    if (failed.some(({ failure }) => failure === 'answer_timeout')) break
    if (!isLastTry) blame = splitBlame(placed, failed.at(-1)!) ?? blame
  }
  return answerOfAll(exchange, retry, null)
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
  const { ports, failed } = retry
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
  { ports, digests, suspect, stepsOf, stages, failed }: RetryState,
  placed: AcquiredPlacement,
): AttemptContext => ({
  exchange,
  ports,
  placed,
  stages,
  earlier: [...failed],
  digests,
  suspect,
  signal: exchange.signal,
  race: alone,
  placeOf: (route) => stepsOf(route).place,
})

/** Adds a failed attempt, whose engine is avoided from now on. */
function addFailure(
  exchange: Exchange,
  { outcome, placed }: FailedAttempt,
  { ports, failed, suspect }: RetryState,
  avoid: Map<string, string[]>,
): void {
  const { route: poolRoute, placement } = placed
  failed.push({ ...outcome, placed, leg: legOf(placement, outcome.engine.id) })
  if (outcome.failure === 'answer_timeout') return
  const server = serverOf(outcome.engine)
  if (outcome.isAway === true) setAside(exchange, ports, poolRoute, server)
  if (!isGatewayFailure(outcome) && !keepsAnswer(outcome)) suspect?.(poolRoute, server)
  const cluster = poolRoute.cluster.id
  const isServerWide = outcome.isServerFull === true || unreached.has(outcome.failure)
  avoid.set(cluster, [...(avoid.get(cluster) ?? []), (isServerWide ? server : outcome.engine).id])
}

/** The engine loads, is paused or is retired: like one that sleeps, it gets no requests before its next good probe. */
function setAside({ scope }: Exchange, ports: Ports, { cluster, pool }: PoolRoute, { id: engine }: EngineTarget): void {
  const at = ports.now()
  const signal = { kind: 'probe', engine, at, sentAt: at, healthy: true, asleep: true, stats: null } as const
  scope.background(ports.pool(cluster.id, pool.model).observe([signal]))
}

/** null: the failure is that of the engine alone. */
function splitBlame({ route, placement }: AcquiredPlacement, { engine, failure }: AttemptFailed): SplitBlame | null {
  const prefill = placement.kind === 'whole' ? null : placement.prefill
  if (prefill === null || engine.id === prefill || failure !== 'status_5xx') return null
  return { cluster: route.cluster.id, decode: engine.id, prefill }
}

/**
 * Withdraws circuit failures of a poison request: if two engines answered 5xx and none succeeded, the request is at
 * fault. Broken connections still count. If the retry budget allowed one attempt only, the failure is withdrawn as
 * doubtful: a flood of poison requests must not open circuits, and a faulty engine fails enough requests that can be
 * retried.
 */
function exonerate({ id, scope }: Exchange, { ports, failed, refused }: RetryState): void {
  const isBudgetSpent = refused === 'retry_budget'
  const serverErrors = failed
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
