/** Requests of one gateway that wait for room in a pool, so that a drain or a removed key answers them at once. */
import { withDeadline } from '../timeout.ts'
import { type Admission, endedAs, type Refusal } from '../core/contract/contract.ts'
import { bookingKey } from '../core/pool/bookings.ts'
import { Failure } from '../failure.ts'
import type { AbortSignalLike, Admitted, Cluster, RequestScope, Timers } from '../ports.ts'

/** Why a request of this key may not wait or run any more; null: it may. */
export type Ending = (tenant: string) => Failure | null

const NEVER: Ending = () => null

export class WaitingRequests {
  readonly #ends = new Set<() => void>()
  #ending: Ending = NEVER

  /** @param isNow waiting requests end now; otherwise when they get a place */
  end(ending: Ending, isNow: boolean): void {
    this.#ending = ending
    if (isNow) for (const end of this.#ends) end()
  }

  /** Throws if requests of the key may not run any more. */
  check(tenant: string): void {
    const failure = this.#ending(tenant)
    if (failure !== null) throw failure
  }

  /** Calls `end` when a request of the key may not wait any more. Returns a function that ends the call. */
  watch(tenant: string, end: (failure: Failure) => void): () => void {
    const look = (): void => {
      const failure = this.#ending(tenant)
      if (failure !== null) end(failure)
    }
    this.#ends.add(look)
    return () => void this.#ends.delete(look)
  }
}

export interface RoomWait {
  readonly cluster: Cluster
  readonly admission: Admission
  readonly maxWaitMs: number
  readonly signal: AbortSignalLike
  readonly scope: RequestScope
  readonly timers: Timers | undefined
  readonly waits: WaitingRequests
  readonly now: () => number
}

/** Time beyond the longest wait, ms, after which the pool state counts as lost. */
const LATE_MS = 1_000

const noAnswer: Refusal = {
  reason: 'overloaded',
  limit: 'queue',
  detail: 'the pool state did not answer in time',
  retryAfterMs: 1_000,
}

/**
 * Waits until the pool admits the request or refuses it. Rejects if the client leaves, or if the request may not run
 * any more; the pool then forgets it.
 */
export async function waitForRoom(wait: RoomWait): Promise<Admitted> {
  const { admission, waits, signal, maxWaitMs, timers } = wait
  waits.check(admission.tenant)
  const asking = ask(wait)
  const { promise: ended, reject } = Promise.withResolvers<never>()
  const onAbort = (): void => reject(signal.reason)
  const unwatch = waits.watch(admission.tenant, reject)
  signal.addEventListener('abort', onAbort)
  if (signal.aborted) onAbort()
  try {
    const answer = await withDeadline(maxWaitMs + LATE_MS, Promise.race([asking, ended]), { timers })
    waits.check(admission.tenant)
    return answer
  } catch (error) {
    wait.scope.background(leave(wait, asking))
    if (signal.aborted || error instanceof Failure) throw error
    return { refusal: noAnswer }
  } finally {
    unwatch()
    signal.removeEventListener('abort', onAbort)
  }
}

/** Asks once again if the call fails, because pool state that loses its memory loses those who wait. */
async function ask({ cluster, admission, scope, now }: RoomWait): Promise<Admitted> {
  const startedAt = now()
  try {
    return await cluster.wait!(admission, 0, scope)
  } catch {
    return cluster.wait!(admission, Math.max(0, now() - startedAt), scope)
  }
}

/** Ends the wait, and releases a place that the request got meanwhile. */
async function leave({ cluster, admission }: RoomWait, asking: Promise<Admitted>): Promise<void> {
  await cluster.leave!(bookingKey(admission)).catch(() => {})
  const late = await asking.catch(() => null)
  if (late !== null && !('refusal' in late)) await late.lease.release(endedAs('client_gone'))
}
