import type { Admission } from '../../core/contract/admission.ts'
import { endedAs } from '../../core/contract/outcome.ts'
import type { Refusal } from '../../core/contract/refusal.ts'
import { bookingKey } from '../../core/pool/bookings.ts'
import { Failure } from '../../failure.ts'
import type { AbortSignalLike } from '../../ports/abort-signal.ts'
import type { AdmitResult, PoolQueue } from '../../ports/pool.ts'
import type { RequestScope } from '../../ports/request-scope.ts'
import type { Timers } from '../../ports/timers.ts'
import { withDeadline } from '../../timeout.ts'
import type { WaitingRequests } from './waiting-requests.ts'

/** @testing */
export interface RoomWait {
  readonly queue: PoolQueue
  readonly admission: Admission
  readonly maxWaitMs: number
  /** Time that the request has waited before, ms. */
  readonly waitedMs: number
  readonly signal: AbortSignalLike
  readonly scope: RequestScope
  readonly timers: Timers
  readonly waitingRequests: WaitingRequests
  readonly now: () => number
}

/** Time beyond the longest wait, ms, after which the pool state counts as lost. */
const LATE_MS = 1_000

const noAnswer: Refusal = {
  reason: 'engines_unavailable',
  detail: 'the pool state did not answer in time',
  retryAfterMs: 1_000,
}

/**
 * Waits until the pool admits the request or refuses it. Rejects if the client leaves, or if the request may not run
 * any more; the pool then forgets it.
 */
export async function waitForRoom(wait: RoomWait): Promise<AdmitResult> {
  const { admission, waitingRequests, signal, maxWaitMs, timers } = wait
  waitingRequests.check(admission.tenant)
  const admitting = ask(wait)
  const { promise: ended, reject } = Promise.withResolvers<never>()
  const onAbort = (): void => reject(signal.reason)
  const unwatch = waitingRequests.watch(admission.tenant, reject)
  signal.addEventListener('abort', onAbort)
  if (signal.aborted) onAbort()
  try {
    const answer = await withDeadline(maxWaitMs + LATE_MS, Promise.race([admitting, ended]), { timers })
    waitingRequests.check(admission.tenant)
    return answer
  } catch (error) {
    wait.scope.background(leave(wait, admitting))
    if (signal.aborted || error instanceof Failure) throw error
    return { refusal: noAnswer }
  } finally {
    unwatch()
    signal.removeEventListener('abort', onAbort)
  }
}

/** Asks once again if the call fails, because pool state that loses its memory loses those who wait. */
async function ask({ queue, admission, scope, now, waitedMs }: RoomWait): Promise<AdmitResult> {
  const startedAt = now()
  try {
    return await queue.wait(admission, waitedMs, scope)
  } catch {
    return queue.wait(admission, waitedMs + Math.max(0, now() - startedAt), scope)
  }
}

/** Ends the wait, and releases a place that the request got meanwhile. */
async function leave({ queue, admission }: RoomWait, admitting: Promise<AdmitResult>): Promise<void> {
  await queue.leave(bookingKey(admission)).catch(() => {})
  const late = await admitting.catch(() => null)
  if (late !== null && !('refusal' in late)) await late.lease.release(endedAs('client_gone'))
}
