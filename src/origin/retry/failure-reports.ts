/** Signals to health checks and pools about the engines of failed attempts. */
import { bookingKey } from '../../core/pool/bookings.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { FailedAttempt } from '../attempt-context.ts'
import { isGatewayFailure } from './client-failure.ts'
import type { Exchange } from '../exchange.ts'
import { keepsAnswer } from './kept-answer.ts'
import { poolOf, type PoolRoute } from '../pool-route.ts'
import { serverOf } from '../rank-targets.ts'
import type { RetryState } from './retry-state.ts'
import type { UpstreamPorts } from '../upstream-ports.ts'

/** Reports a failed engine to health checks. */
export function reportFailure(
  { outcome, placed: { route } }: FailedAttempt,
  exchange: Exchange,
  { ports, probeSoon }: RetryState,
): void {
  if (outcome.failure === 'answer_timeout' || outcome.failure === 'paused') return
  const server = serverOf(outcome.engine)
  if (outcome.isAway === true) setAside(exchange, ports, route, server)
  if (!isGatewayFailure(outcome) && !keepsAnswer(outcome)) probeSoon?.(route, server)
}

/** The engine loads, is paused or is retired: like one that sleeps, it gets no requests before its next good probe. */
function setAside({ scope }: Exchange, ports: UpstreamPorts, route: PoolRoute, { id: engine }: EngineTarget): void {
  const at = ports.now()
  const signal = { kind: 'probe', engine, at, sentAt: at, healthy: true, asleep: true, stats: null } as const
  scope.background(poolOf(ports, route).observe([signal]))
}

/**
 * Withdraws circuit failures of a poison request: if two engines answered 5xx and none succeeded, the request is at
 * fault. Broken connections still count. If the retry budget allowed one attempt only, the failure is withdrawn as
 * doubtful: a flood of poison requests must not open circuits, and a faulty engine fails enough requests that can be
 * retried.
 */
export function exonerate({ id, scope }: Exchange, { ports, failed, refusalReason }: RetryState): void {
  const isBudgetSpent = refusalReason === 'retry_budget'
  const serverErrors = failed.all
    .map((one, at) => ({ ...one, booking: bookingKey({ id, attempt: at }) }))
    .filter(({ failure }) => failure === 'status_5xx')
  const isProven = new Set(serverErrors.map(({ engine }) => serverOf(engine))).size > 1
  if (isProven) ports.log.warn('poison_request', { id })
  for (const { placed, engine, booking } of serverErrors) {
    const { route } = placed
    if (!isProven && !(isBudgetSpent && hasRetries(route.pool))) continue
    const signal = { kind: 'excused', engine: engine.id, booking } as const
    scope.background(poolOf(ports, route).observe([isProven ? signal : { ...signal, doubtful: true }]))
  }
}

/** Without retries, each failure must count: there is no second one to compare it with. */
const hasRetries = ({ retry }: PoolRoute['pool']): boolean => retry.share > 0 || retry.minPerS > 0
