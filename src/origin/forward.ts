/**
 * Retry loop: tries engines until one answers. A failure before the first byte costs an attempt, after it the stream.
 */
import { bookingKey } from '../core/pool/bookings.ts'
import type { EarlyLegRole } from '../core/contract/legs.ts'
import type { AttemptFailure, Placement, Refusal, RefusalReason } from '../core/contract/contract.ts'
import type { OpenRecord } from '../core/reports/combine.ts'
import { Failure, failures, type FailureReason } from '../failure.ts'
import type { Ports } from '../ports.ts'
import type { AttemptFailed, Suspect } from './classify.ts'
import { runAttempt } from './attempt.ts'
import { endExchange, type Exchange, type PoolRoute, abortReason } from './exchange.ts'
import { BUDGET_EXHAUSTED, failureOf, acquirePlacement, type AcquiredPlacement, type Digests } from './acquire.ts'
import { mayHedge, Race, type FailedAttempt } from './hedge.ts'
import { StageTimer } from './timers.ts'
import { loopFailure } from './via.ts'

/** Upper bound: the retry budget of the pool and the number of engines end the loop earlier. */
const MAX_ATTEMPTS = 16
/** Retry-After when no engine could be reached: about the time until a restarted engine is found, ms. */
const RETRY_AFTER_MS = 1_000

/**
 * Returns the response of the first engine that answers. Throws a Failure if none does, if the cluster refuses, or if
 * the client disconnects. Releases every booking.
 * @param suspect called with each engine that failed an attempt, so that its health is checked soon
 */
export async function forward(
  exchange: Exchange,
  ports: Ports,
  digests: Digests,
  suspect?: Suspect,
): Promise<Response> {
  const stages = new StageTimer(exchange.stages)
  const failed: Failed[] = []
  const retry: RetryState = { ports, digests, suspect, stages, failed, refused: null }
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

interface RetryState {
  readonly ports: Ports
  readonly digests: Digests
  readonly suspect: Suspect | undefined
  readonly stages: StageTimer
  /** Failed attempts so far. */
  readonly failed: Failed[]
  /** Why the clusters refused another attempt; null: they did not. */
  refused: RefusalReason | null
}

interface Failed extends AttemptFailed {
  readonly route: PoolRoute
  /** The leg that failed; null: the final one. */
  readonly leg: EarlyLegRole | null
}

function legOf(placement: Placement, engine: string): EarlyLegRole | null {
  if (placement.kind === 'whole') return null
  if (engine === placement.prefill) return 'prefill'
  return placement.kind === 'staged' && placement.encode.includes(engine) ? 'encode' : null
}

/** Legs that failed before the final one; null: a final leg failed. */
function failedLegsOf(failed: readonly Failed[]): readonly EarlyLegRole[] | null {
  const legs = new Set(failed.map(({ leg }) => leg))
  return legs.has(null) ? null : ([...legs] as EarlyLegRole[])
}

const isMoved = ({ engine, failure }: Failed): boolean =>
  engine.isGateway === true && (failure === 'busy' || failure === 'loop' || unreached.has(failure))

/** The gateway could not send the request: no failure of the engine. */
const isOwn = ({ failure }: AttemptFailed): boolean => failure === 'gateway_limit'

/** A decode engine that failed on KV data of a prefill engine: either of the two may be at fault. */
interface SplitBlame {
  readonly cluster: string
  readonly decode: string
  readonly prefill: string
}

async function retryLoop(exchange: Exchange, retry: RetryState): Promise<Response> {
  const { ports, digests, suspect, stages, failed } = retry
  const avoid = new Map<string, string[]>()
  let orphaned: SplitBlame | null = null
  let isLastWord = false
  while (failed.length < MAX_ATTEMPTS) {
    const placed = await acquirePlacement(exchange, ports, digests, {
      attempt: failed.length,
      moved: failed.length > 0 && failed.every((one) => isMoved(one) || isOwn(one)),
      failedLegs: failedLegsOf(failed),
      avoid,
      stages,
    })
    if ('refused' in placed) {
      retry.refused = placed.refused.reason
      if (orphaned === null) throw failureOfAll(exchange, failed, placed.refused)
      // No other decode engine is left: try this one again, with another prefill engine or alone.
      const { cluster, decode, prefill } = orphaned
      avoid.set(cluster, [...avoid.get(cluster)!.filter((id) => id !== decode), prefill])
      orphaned = null
      isLastWord = true
      continue
    }
    const attempt = { exchange, ports, placed, stages, earlier: [...failed], digests, suspect }
    const outcome = await (failed.length === 0 && mayHedge(attempt) ? new Race(attempt).run() : runAttempt(attempt))
    if (!('failure' in outcome || 'failures' in outcome)) return outcome
    retry.refused = null
    for (const one of 'failures' in outcome ? outcome.failures : [{ outcome, placed }]) addFailure(one, retry, avoid)
    // Another engine would need as long, and the client has waited for the whole limit.
    if (failed.some(({ failure }) => failure === 'answer_timeout')) break
    if (!isLastWord) orphaned = splitBlame(placed, failed.at(-1)!) ?? orphaned
  }
  throw failureOfAll(exchange, failed, null)
}

/** Adds a failed attempt, whose engine is avoided from now on. */
function addFailure(
  { outcome, placed: { route, placement } }: FailedAttempt,
  { failed, suspect }: RetryState,
  avoid: Map<string, string[]>,
): void {
  failed.push({ ...outcome, route, leg: legOf(placement, outcome.engine.id) })
  if (outcome.failure === 'answer_timeout') return
  if (!isOwn(outcome)) suspect?.(route, outcome.engine)
  const cluster = route.cluster.id
  avoid.set(cluster, [...(avoid.get(cluster) ?? []), outcome.engine.id])
}

/** null: the failure is that of the engine alone. */
function splitBlame({ route, placement }: AcquiredPlacement, { engine, failure }: AttemptFailed): SplitBlame | null {
  const prefill = placement.kind === 'whole' ? null : placement.prefill
  if (prefill === null || engine.id === prefill || failure !== 'status_5xx') return null
  return { cluster: route.cluster.id, decode: engine.id, prefill }
}

/** The failure for the client. Loops count only if nothing else failed. `refusal`: why there was no further attempt. */
function failureOfAll({ routes }: Exchange, failed: readonly AttemptFailed[], refusal: Refusal | null): Failure {
  const others = failed.filter(({ failure }) => failure !== 'loop')
  const isFull = refusal?.reason === 'engines_full' || refusal?.reason === 'overloaded'
  // Engines that could not be reached are away; those that are left have no room.
  if (isFull && others.length > 0 && others.every(({ failure }) => unreached.has(failure))) return failureOf(refusal)
  if (others.length > 0) return failureOfAttempts(others, refusal?.reason === 'retry_budget')
  const isLast = failed.length === routes.reduce((sum, { targets }) => sum + targets.size, 0)
  return refusal === null || (isLast && failed.length > 0) ? loopFailure() : failureOf(refusal)
}

/**
 * Withdraws circuit failures of a poison request: if two engines answered 5xx and none succeeded, the request is at
 * fault. Broken connections still count. If the retry budget allowed one attempt only, the failure is withdrawn as
 * doubtful: a flood of poison requests must not open circuits, and a faulty engine fails enough requests that can be
 * retried.
 */
function exonerate({ id, scope }: Exchange, { ports, failed, refused }: RetryState): void {
  const isCutShort = refused === 'retry_budget'
  const said = failed
    .map((one, at) => ({ ...one, booking: bookingKey({ id, attempt: at }) }))
    .filter(({ failure }) => failure === 'status_5xx')
  const isProven = new Set(said.map(({ engine }) => engine)).size > 1
  if (isProven) ports.log.warn('poison_request', { id })
  for (const { route, engine, booking } of said) {
    const { cluster, pool } = route
    if (!isProven && !(isCutShort && hasRetries(pool))) continue
    const signal = { kind: 'excused', engine: engine.id, booking } as const
    scope.background(ports.cluster(cluster.id, pool.model).observe([isProven ? signal : { ...signal, doubtful: true }]))
  }
}

/** Without retries, each failure must count: there is no second one to compare it with. */
const hasRetries = ({ retry }: PoolRoute['pool']): boolean => retry.share > 0 || retry.minPerS > 0

/**
 * The failure for the client if all attempts failed: that of the last attempt, unless no engine was reached.
 * @param isCutShort the retry budget was exhausted, so other engines may have been able to answer
 */
function failureOfAttempts(failed: readonly AttemptFailed[], isCutShort: boolean): Failure {
  const tried = failed.length === 1 ? 'The engine' : `${failed.length} engines`
  const attempts = failed.map(({ failure, status }) => (status === null ? failure : `${failure} ${status}`)).join(', ')
  const options = {
    cause: isCutShort ? `${attempts}; the retry budget is spent` : attempts,
    retryAfterMs: RETRY_AFTER_MS,
  }
  const problem = (reason: FailureReason, what: string, next = ''): Failure =>
    new Failure(reason, `${what}${isCutShort ? `, and ${BUDGET_EXHAUSTED}` : `.${next}`}`, options)
  if (failed.some(isOwn))
    return new Failure('gateway_limit', 'The gateway has no descriptors or ports left. Try again shortly.', options)
  if (failed.every((one) => unreached.has(one.failure) || isBare(one))) {
    return isCutShort
      ? problem('retry_budget', `${tried} could not be reached`)
      : problem('no_engine', 'No engine is available for this model right now')
  }
  if (failed.every(({ failure }) => failure === 'busy' || unreached.has(failure))) {
    return isCutShort
      ? problem('engines_full', `${tried} had no room for the request`)
      : problem('engines_full', 'All engines for this model are busy', ' Try again shortly.')
  }
  const last = failed.at(-1)!
  if (last.failure === 'answer_timeout')
    return new Failure('answer_timeout', 'The answer took too long. Ask for a stream, or for a shorter answer.', {
      cause: attempts,
    })
  if (last.failure === 'first_byte_timeout')
    return problem('engine_timeout', `${tried} did not begin an answer in time`)
  if (last.status !== null)
    return problem('engine_unreachable', `${tried} failed to answer (last status ${last.status})`)
  return problem('engine_unreachable', `${tried} gave no usable answer`)
}

/** A gateway without engines. It answers like a busy one, but load is not the cause. */
const isBare = ({ engine, failure, status }: AttemptFailed): boolean =>
  engine.isGateway === true && failure === 'busy' && status === failures.no_engine.status

/** Failures without a response. workerd reports a refused and a broken connection alike, so both count. */
const unreached: ReadonlySet<AttemptFailure> = new Set(['connect', 'connect_timeout', 'reset'])
