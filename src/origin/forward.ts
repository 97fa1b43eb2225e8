/** Walks a request through engines until one answers: before the first byte a failure costs an attempt, after it the stream. */
import { bookingKey } from '../core/pool/bookings.ts'
import type { EarlyLegRole } from '../core/contract/legs.ts'
import type { AttemptFailure, Placement, Refusal, RefusalReason } from '../core/contract/contract.ts'
import type { OpenRecord } from '../core/reports/combine.ts'
import { Failure, failures, type FailureReason } from '../failure.ts'
import type { EngineTarget, Ports } from '../ports.ts'
import type { AttemptFailed } from './classify.ts'
import { attempt } from './attempt.ts'
import { endExchange, type Exchange, type PoolRoute } from './exchange.ts'
import { abortReason } from './abort-reason.ts'
import { BUDGET_EXHAUSTED, failureOf, acquirePlacement, type Digests } from './acquire.ts'
import { StageTimer } from './stage-timer.ts'
import { loopFailure } from './via.ts'

/** A backstop: the object's retry budget and the engines left end the walk long before. */
const MAX_ATTEMPTS = 16
/** When every engine was out of reach: about the time a restarted one needs to be found again. */
const RETRY_AFTER_MS = 1_000

export type Suspect = (route: PoolRoute, engine: EngineTarget) => void

/**
 * The answer of the first engine that gives one, ready for the client. Throws a Failure when none does, when the
 * cluster refuses, or when the client is gone. Every booking made on the way is released.
 * @param suspect told of every engine that failed an attempt, so that somebody looks after it soon
 */
export async function forward(
  exchange: Exchange,
  ports: Ports,
  digests: Digests,
  suspect?: Suspect,
): Promise<Response> {
  const stages = new StageTimer(exchange.stages)
  const failed: Failed[] = []
  const way: RetryState = { ports, digests, suspect, stages, failed, refused: null }
  try {
    return await retryLoop(exchange, way)
  } catch (error) {
    const result = exchange.signal.aborted ? abortReason(exchange.scope) : 'refused'
    if (result === 'refused') exonerate(exchange, way)
    const unexpected = result === 'client_gone' ? 499 : 500
    const status = error instanceof Failure ? error.shape.status : unexpected
    const { refused } = way
    Object.assign(exchange.record, NOT_PLACED, refused === null ? {} : { notes: [`refused=${refused}`] })
    const failedAttempts = failed.map(({ failure }) => failure)
    endExchange(exchange, { status, result, failedAttempts, stages: stages.snapshot(), usage: null }, ports.now())
    throw error
  }
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
  /** Filled on the way, one an attempt. */
  readonly failed: Failed[]
  /** Why the clusters placed no further attempt; null: they were not asked, or placed it. */
  refused: RefusalReason | null
}

interface Failed extends AttemptFailed {
  readonly route: PoolRoute
  /** The leg that failed; null: the one whose answer is the client's. */
  readonly leg: EarlyLegRole | null
}

function legOf(placement: Placement, engine: string): EarlyLegRole | null {
  if (placement.kind === 'whole') return null
  if (engine === placement.prefill) return 'prefill'
  return placement.kind === 'staged' && placement.encode.includes(engine) ? 'encode' : null
}

/** null: an engine failed that was asked for the answer. */
function failedLegsOf(failed: readonly Failed[]): readonly EarlyLegRole[] | null {
  const legs = new Set(failed.map(({ leg }) => leg))
  return legs.has(null) ? null : ([...legs] as EarlyLegRole[])
}

const isMoved = ({ engine, failure }: Failed): boolean =>
  engine.isGateway === true && (failure === 'busy' || failure === 'loop' || unreached.has(failure))

/** The gateway itself could not ask: that says nothing of the engine, and another one is no retry. */
const isOwn = ({ failure }: AttemptFailed): boolean => failure === 'gateway_limit'

/** A decode engine that failed on what a prefill engine left for it: that one may have died, and it may be well. */
interface SplitBlame {
  readonly cluster: string
  readonly decode: string
  readonly prefill: string
}

async function retryLoop(exchange: Exchange, way: RetryState): Promise<Response> {
  const { ports, digests, suspect, stages, failed } = way
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
      way.refused = placed.refused.reason
      if (orphaned === null) throw failureOfAll(exchange, failed, placed.refused)
      // Nobody else decodes: it is asked once more, after another prefill or alone.
      const { cluster, decode, prefill } = orphaned
      avoid.set(cluster, [...avoid.get(cluster)!.filter((id) => id !== decode), prefill])
      orphaned = null
      isLastWord = true
      continue
    }
    const outcome = await attempt({ exchange, ports, placed, stages, earlier: [...failed] })
    if (!('failure' in outcome)) return outcome
    way.refused = null
    failed.push({ ...outcome, route: placed.route, leg: legOf(placed.placement, outcome.engine.id) })
    // Another engine would take as long, and the client has waited for the limit once.
    if (outcome.failure === 'answer_timeout') break
    if (!isOwn(outcome)) suspect?.(placed.route, outcome.engine)
    const cluster = placed.route.cluster.id
    const engine = outcome.engine.id
    const prefill = placed.placement.kind === 'whole' ? null : placed.placement.prefill
    if (!isLastWord && prefill !== null && engine !== prefill && outcome.failure === 'status_5xx')
      orphaned = { cluster, decode: engine, prefill }
    avoid.set(cluster, [...(avoid.get(cluster) ?? []), engine])
  }
  throw failureOfAll(exchange, failed, null)
}

/** Engines that lead back are as if they were not there, as long as there are others. `refusal`: why nobody else was asked. */
function failureOfAll({ routes }: Exchange, failed: readonly AttemptFailed[], refusal: Refusal | null): Failure {
  const others = failed.filter(({ failure }) => failure !== 'loop')
  if (others.length > 0) return failureOfAttempts(others, refusal?.reason === 'retry_budget')
  const isLast = failed.length === routes.reduce((sum, { targets }) => sum + targets.size, 0)
  return refusal === null || (isLast && failed.length > 0) ? loopFailure() : failureOf(refusal)
}

/**
 * Where two engines answered with a 5xx and nobody answered otherwise, the request is to blame, and no circuit counts it.
 * One that broke the connection is not well, whoever broke it: that counts. Where the budget let only one be asked, nobody
 * can tell: a flood of such requests is to open no circuits, and an engine that is ill fails enough of those that can be retried.
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

/** Without any, every failure is the only word there is. */
const hasRetries = ({ retry }: PoolRoute['pool']): boolean => retry.share > 0 || retry.minPerS > 0

/**
 * What the client is told when engines were tried and all failed. The last one decides, unless none was ever reached.
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

/** A gateway that has nobody: others may be full, but this is no matter of load. */
const isBare = ({ engine, failure, status }: AttemptFailed): boolean =>
  engine.isGateway === true && failure === 'busy' && status === failures.no_engine.status

/** No answer was begun. workerd cannot tell a refused connection from one that broke, so neither do we. */
const unreached: ReadonlySet<AttemptFailure> = new Set(['connect', 'connect_timeout', 'reset'])
