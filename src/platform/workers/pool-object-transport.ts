import type { ClusterObject } from '../../../durable/cluster-object.ts'
import type { Admission } from '../../core/contract/admission.ts'
import type { BookingEvent } from '../../core/contract/booking-event.ts'
import type { Renewal } from '../../core/contract/renewal.ts'
import type { Resume } from '../../core/contract/resume.ts'
import type { AdmitAnswer } from '../../core/pool/admission-result.ts'
import type { PoolMethod, PoolTransport } from '../../origin/pools/pool-transport.ts'
import type { RequestScope } from '../../ports/request-scope.ts'
import { AdmitPace } from './admit-pace.ts'
import { EventBatcher } from './event-batcher.ts'

export type Stub = DurableObjectStub<ClusterObject>

/**
 * Time, ms, that events wait for an `admit` to send them. The engines of a quiet isolate look busy for this much
 * longer.
 */
const LINGER_MS = 20

/** Limit of checks in a busy isolate whether other calls have sent all events. */
const MAX_CHECKS = 50

/** Delay, ms, before a failed call is repeated once. */
const RETRY_MS = 1_000

const DONE = Promise.resolve()

/** Compiles only if the object has a method for each name. */
type ObjectMethods = {
  readonly [Name in keyof Pick<ClusterObject, PoolMethod>]: (...args: readonly unknown[]) => Promise<unknown>
}

/** Calls of a ClusterObject. Rejects if the object is unreachable; the caller then places the request without it. */
export class PoolObjectTransport implements PoolTransport {
  readonly #open: () => Stub
  readonly #batcher: EventBatcher
  readonly #pace = new AdmitPace()

  constructor(open: () => Stub, now: () => number = Date.now) {
    this.#open = open
    this.#batcher = new EventBatcher(now)
  }

  admitLimitMs(): number | null {
    return this.#pace.limitMs
  }

  call(method: PoolMethod, args: readonly unknown[]): Promise<unknown> {
    return this.#withRetry(async (stub) => {
      const methods = stub as unknown as ObjectMethods
      return methods[method](...args)
    })
  }

  /** Also sends the queued events of other requests, so that a busy isolate needs no further calls. */
  async admit(admission: Admission): Promise<AdmitAnswer> {
    const batch = this.#batcher.take()
    const startedAt = Date.now()
    try {
      // Safe to repeat: the object gives the same answer for a booking that it has.
      const answer = await this.#withRetry(async (stub) => stub.admit(admission, batch.bookingEvents))
      this.#pace.record(startedAt, Date.now())
      this.#batcher.arrived(batch)
      return answer
    } catch (error) {
      this.#batcher.failed(batch)
      throw error
    }
  }

  /** No event waits for its answer, which may come late. */
  wait(admission: Admission, waitedMs: number): Promise<AdmitAnswer> {
    return this.#withRetry(async (stub) => stub.wait(admission, waitedMs))
  }

  async resume(booking: Resume): Promise<void> {
    const answer = await this.#withRetry(async (stub) => stub.resume(booking))
    if (answer !== null) throw new Error(answer.refusal.detail)
  }

  renew(key: string): Promise<Renewal> {
    return this.#withRetry(async (stub) => stub.renew(key))
  }

  /** Resolves when the object has the event, or at once if another request sends it. Never rejects. */
  send(event: BookingEvent, scope: Pick<RequestScope, 'background'> | undefined): Promise<void> {
    if (!this.#batcher.add(event, LINGER_MS)) return DONE
    const carried = this.#carry()
    scope?.background(carried)
    return carried
  }

  async #carry(): Promise<void> {
    let waitMs = LINGER_MS
    for (let checks = 0; waitMs > 0 && checks < MAX_CHECKS; checks++) {
      await scheduler.wait(waitMs)
      waitMs = this.#batcher.lingerMs(LINGER_MS)
    }
    for (const delayMs of [RETRY_MS, 0]) {
      this.#batcher.carrierFree()
      if (this.#batcher.isEmpty) return
      const batch = this.#batcher.take()
      try {
        await this.#withRetry((stub) => stub.tell(batch.bookingEvents))
        return this.#batcher.arrived(batch)
      } catch {
        this.#batcher.failed(batch)
      }
      if (delayMs > 0) await scheduler.wait(delayMs)
    }
  }

  /** Repeats the call on a fresh stub if the platform marks the error as retryable and the object is not overloaded. */
  async #withRetry<Answer>(withRetry: (stub: Stub) => Promise<Answer>): Promise<Answer> {
    try {
      return await withRetry(this.#open())
    } catch (error) {
      if (!isRetryable(error)) throw error
      return withRetry(this.#open())
    }
  }
}

function isRetryable(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  const { retryable, overloaded } = error as { readonly retryable?: boolean; readonly overloaded?: boolean }
  return retryable === true && overloaded !== true
}
