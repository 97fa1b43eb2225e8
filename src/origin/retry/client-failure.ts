/** The failure that the client gets if no engine answers. */
import type { AttemptFailure } from '../../core/contract/outcome.ts'
import { isPoolFull, type Refusal, type RefusalReason } from '../../core/contract/refusal.ts'
import { Failure, type FailureReason, failures } from '../../failure.ts'
import type { FailedOutcome } from '../attempt-context.ts'
import type { Exchange } from '../exchange.ts'
import type { FailedLeg } from './failed-leg.ts'
import { keepsAnswer } from './kept-answer.ts'
import { loopFailure } from '../via.ts'

const BUDGET_EXHAUSTED = "this model's retry budget is exhausted, so no other engine was tried. Try again shortly."

/** What the client gets for a refusal. Status, code and whether a retry makes sense follow from `failure`. */
interface ClientFailure {
  readonly failure: FailureReason
  readonly message: string | ((refusal: Refusal) => string)
}

const NO_ENGINE: ClientFailure = {
  failure: 'no_engine',
  message: 'No engine is available for this model right now.',
}

const DEADLINE_UNMET: ClientFailure = {
  failure: 'deadline_unmet',
  message: 'No engine can send the first token before the deadline of this request.',
}

const CLIENT_FAILURES: Readonly<Record<RefusalReason, ClientFailure>> = {
  overloaded: {
    failure: 'overloaded',
    message: 'This model has more requests than it can serve in time. Try again later.',
  },
  engines_full: { failure: 'engines_full', message: 'All engines for this model are full. Try again shortly.' },
  retry_budget: { failure: 'retry_budget', message: `The request failed, and ${BUDGET_EXHAUSTED}` },
  role_empty: {
    failure: 'role_empty',
    message: ({ emptyRole = 'a role this request needs' }) => `No engine with ${emptyRole} is available.`,
  },
  engines_unavailable: NO_ENGINE,
  no_engine: NO_ENGINE,
  unconfigured: NO_ENGINE,
}

/** Finds the failure for a refusal. A pool state of a later version may send a reason that is not listed. */
const clientFailureOf = ({ reason, limit }: Refusal): ClientFailure =>
  reason === 'overloaded' && limit === 'deadline' ? DEADLINE_UNMET : (CLIENT_FAILURES[reason] ?? NO_ENGINE)

/** Converts a refusal to the failure that the client gets. */
function refusalFailure(refusal: Refusal): Failure {
  const { failure, message } = clientFailureOf(refusal)
  return new Failure(failure, typeof message === 'string' ? message : message(refusal), {
    retryAfterMs: Math.max(1, refusal.retryAfterMs),
    cause: refusal.detail,
  })
}

/** A failed outcome; `leg` is null unless the request was split. */
type FailedOnLeg = FailedOutcome & { readonly leg: FailedLeg | null }

/** Retry-After when no engine could be reached: about the time until a restarted engine is found, ms. */
const RETRY_AFTER_MS = 1_000

/** The gateway could not send the request: no failure of the engine. */
export const isGatewayFailure = ({ failure }: FailedOutcome): boolean => failure === 'gateway_limit'

/** The failure for the client. Loops count only if nothing else failed. `refusal`: why there was no further attempt. */
export function failureOfAll({ routes }: Exchange, failed: readonly FailedOnLeg[], refusal: Refusal | null): Failure {
  const others = failed.filter(
    ({ failure }) => failure !== 'loop' && !(failure === 'paused' && refusal !== null) && !keepsAnswer({ failure }),
  )
  const hasOnlyUnreached = others.length > 0 && others.every(({ failure }) => unreached.has(failure))
  // Engines that could not be reached are away; those that are left have no room, or lack a role.
  if (hasOnlyUnreached && refusal !== null && (isPoolFull(refusal) || refusal.reason === 'role_empty'))
    return refusalFailure(refusal)
  if (others.length > 0) return failureOfAttempts(others, refusal?.reason === 'retry_budget')
  const isLast = failed.length >= routes.reduce((sum, { targets }) => sum + targets.size, 0)
  return refusal === null || (isLast && failed.length > 0) ? loopFailure() : refusalFailure(refusal)
}

/**
 * The failure for the client if all attempts failed: that of the last attempt, unless no engine was reached.
 * @param isBudgetSpent the retry budget was exhausted, so other engines may have been able to answer
 */
function failureOfAttempts(failed: readonly FailedOnLeg[], isBudgetSpent: boolean): Failure {
  const tried = triedEngines(failed)
  const attempts = failed.map(describeAttempt).join(', ')
  const options = {
    cause: isBudgetSpent ? `${attempts}; the retry budget is spent` : attempts,
    retryAfterMs: retryAfterMs(failed),
  }
  const problem = (reason: FailureReason, what: string, next = ''): Failure =>
    new Failure(reason, `${what}${isBudgetSpent ? `, and ${BUDGET_EXHAUSTED}` : `.${next}`}`, options)
  if (failed.some(isGatewayFailure))
    return new Failure('gateway_limit', 'The gateway has no descriptors or ports left. Try again shortly.', options)
  if (failed.every((one) => unreached.has(one.failure) || isEmptyGateway(one))) {
    return isBudgetSpent
      ? problem('retry_budget', `${tried} could not be reached`)
      : problem('no_engine', 'No engine is available for this model right now')
  }
  if (failed.every(({ failure }) => failure === 'busy' || unreached.has(failure))) {
    return isBudgetSpent
      ? problem('engines_full', `${tried} had no room for the request`)
      : problem('engines_full', 'All engines for this model are busy', ' Try again shortly.')
  }
  if (failed.every(({ failure }) => failure === 'lacks_model' || failure === 'lacks_adapter' || unreached.has(failure)))
    return problem('model_not_loaded', 'No reachable engine has loaded this model or adapter')
  const last = failed.at(-1)!
  if (last.failure === 'answer_timeout')
    return new Failure('answer_timeout', 'The answer took too long. Ask for a stream, or for a shorter answer.', {
      cause: attempts,
    })
  if (last.failure === 'first_byte_timeout')
    return problem('engine_timeout', `${tried} did not start an answer in time`)
  if (last.status !== null)
    return problem('engine_unreachable', `${tried} failed to answer (last status ${last.status})`)
  return problem('engine_unreachable', `${tried} gave no usable answer`)
}

/** `The engine of the prefill leg`, `3 engines of the prefill and decode legs`, `2 engines`. */
function triedEngines(failed: readonly FailedOnLeg[]): string {
  const engines = failed.length === 1 ? 'The engine' : `${failed.length} engines`
  const legs = new Set(failed.map(({ leg }) => leg))
  if (legs.has(null)) return engines
  return `${engines} of the ${[...legs].join(' and ')} leg${legs.size === 1 ? '' : 's'}`
}

const describeAttempt = ({ leg, failure, status }: FailedOnLeg): string =>
  [failure, status, leg === null ? null : `(${leg} leg)`].filter((part) => part !== null).join(' ')

/** Smallest time that a full engine gave. Clients such as Codex give up on a 429 without one. */
const retryAfterMs = (failed: readonly FailedOutcome[]): number => {
  const given = failed.flatMap((one) => one.retryAfterMs ?? [])
  return given.length === 0 ? RETRY_AFTER_MS : Math.max(1, Math.min(...given))
}

/** A gateway without engines. It answers like a busy one, but load is not the cause. */
const isEmptyGateway = ({ engine, failure, status }: FailedOutcome): boolean =>
  engine.kind === 'gateway' && failure === 'busy' && status === failures.no_engine.status

/** Failures without a response. workerd reports a refused and a broken connection alike, so both count. */
export const unreached: ReadonlySet<AttemptFailure> = new Set(['connect', 'connect_timeout', 'reset'])
