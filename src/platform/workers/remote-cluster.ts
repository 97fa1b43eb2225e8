import type { ClusterObject } from '../../../durable/cluster.ts'
import type { BookingEvent } from '../../core/contract/booking-events.ts'
import type { Admission, Resume } from '../../core/contract/contract.ts'
import type { AdmitAnswer, ClusterTransport, PoolMethod } from '../../origin/cluster-client.ts'
import type { RequestScope } from '../../ports.ts'
import { EventBatcher } from './event-batcher.ts'

type Stub = DurableObjectStub<ClusterObject>

/**
 * Time that events wait for an `admit` which carries them, ms. The engines of a quiet isolate look busy for this much
 * longer, which is less than an object may be unreachable.
 */
const LINGER_MS = 20
/** Checks by the carrier of a busy isolate whether other calls carry all events, before it makes a call of its own. */
const MAX_CHECKS = 50
/** Delay before a carrier whose call failed tries once more, ms. */
const RETRY_MS = 1_000

const done = Promise.resolve()

/** Calls of a ClusterObject. Rejects if the object is unreachable; the caller then places the request without it. */
export class ObjectTransport implements ClusterTransport {
  readonly #open: () => Stub
  readonly #batcher: EventBatcher

  constructor(open: () => Stub, now: () => number = Date.now) {
    this.#open = open
    this.#batcher = new EventBatcher(now)
  }

  call(method: PoolMethod, args: readonly unknown[]): Promise<unknown> {
    return this.#ask(async (stub) => {
      const methods = stub as unknown as Record<PoolMethod, (...args: readonly unknown[]) => Promise<unknown>>
      return methods[method](...args)
    })
  }

  /** Carries the events of other requests: a busy isolate needs no call besides. */
  async admit(admission: Admission): Promise<AdmitAnswer> {
    const batch = this.#batcher.take()
    try {
      // Safe to repeat: the object gives the same answer for a booking that it has.
      const answer = await this.#ask(async (stub) => stub.admit(admission, batch.bookingEvents))
      this.#batcher.arrived(batch)
      return answer
    } catch (error) {
      this.#batcher.failed(batch)
      throw error
    }
  }

  async resume(booking: Resume): Promise<void> {
    const answer = await this.#ask(async (stub) => stub.resume(booking))
    if (answer !== null) throw new Error(answer.refusal.detail)
  }

  renew(key: string): Promise<boolean> {
    return this.#ask(async (stub) => stub.renew(key))
  }

  /** Resolves when the object has the event, or at once if another request carries it. Never rejects. */
  send(event: BookingEvent, scope: Pick<RequestScope, 'background'> | undefined): Promise<void> {
    if (!this.#batcher.add(event, LINGER_MS)) return done
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
        await this.#ask((stub) => stub.tell(batch.bookingEvents))
        return this.#batcher.arrived(batch)
      } catch {
        this.#batcher.failed(batch)
      }
      if (delayMs > 0) await scheduler.wait(delayMs)
    }
  }

  /** Repeats the call on a fresh stub if the platform marks the error as retryable and the object is not overloaded. */
  async #ask<Answer>(ask: (stub: Stub) => Promise<Answer>): Promise<Answer> {
    try {
      return await ask(this.#open())
    } catch (error) {
      if (!isRetryable(error)) throw error
      return ask(this.#open())
    }
  }
}

function isRetryable(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  const { retryable, overloaded } = error as { readonly retryable?: boolean; readonly overloaded?: boolean }
  return retryable === true && overloaded !== true
}
