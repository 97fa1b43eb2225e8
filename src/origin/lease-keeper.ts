/** Keeps one booking alive while its request lives, and ends it exactly once. */
import type { EarlyLegRole } from '../core/contract/legs.ts'
import type { Admission, Outcome, Placement, Resume, StageTimes, Usage } from '../core/contract/contract.ts'
import type { Timer, Timers, Cluster, Lease, Log, RequestScope } from '../ports.ts'
import type { InFlightPrompt } from './regions/estimator.ts'
import { defaultTimers } from './timers.ts'

export interface BookingParts {
  readonly cluster: Cluster
  /** null: placed without the object, which was out of reach; it is told as soon as it is back. */
  readonly lease: Lease | null
  readonly admission: Admission
  readonly placement: Placement
  readonly leaseMs: number
  readonly log: Log
  readonly alarms?: Timers | undefined
  /** What the booking's words are kept alive by. */
  readonly scope?: RequestScope | undefined
}

type Step = (lease: Lease) => Promise<void>

const told = Promise.resolve()

/**
 * Speaks to the object in order, one call at a time, and never fails its request: what the object has forgotten is
 * booked again, what it cannot hear now is said with the next sign of life.
 */
export class LeaseKeeper {
  readonly #parts: BookingParts
  #lease: Lease | null
  /** The object has known this booking at some time, so it must hear of its end. */
  #known: boolean
  #renewal: Timer
  #tail: Promise<void> = Promise.resolve()
  #queued = 0
  #firstTokenSeen = false
  #legsDone: readonly EarlyLegRole[] = []
  #outputBlocks = 0
  #progressQueued = false
  #released = false
  #sent: Pick<InFlightPrompt, 'over'> | null = null

  constructor(parts: BookingParts) {
    this.#parts = parts
    this.#lease = parts.lease
    this.#known = parts.lease !== null
    this.#renewal = this.#renewLater()
  }

  /** Whoever chooses a cluster counts with the prompt until its first token, or its end. */
  sent(sent: Pick<InFlightPrompt, 'over'>): void {
    this.#sent = sent
  }

  /** The legs of this part have answered. Has effect once a part. */
  legDone(part: EarlyLegRole, stages: StageTimes, usage: Usage | null = null): void {
    if (this.#legsDone.includes(part) || this.#firstTokenSeen || this.#released) return
    this.#legsDone = [...this.#legsDone, part]
    if (this.#lease !== null) this.#say((lease) => lease.legDone?.(part, stages, usage) ?? told)
  }

  /** The prefill is done. Has effect once. */
  firstToken(stages: StageTimes): void {
    if (this.#firstTokenSeen || this.#released) return
    this.#firstTokenSeen = true
    this.#arrived()
    if (this.#lease !== null) this.#say((lease) => lease.firstToken(stages))
  }

  /** Output so far, in blocks; of many calls in a row only the last is sent. */
  progress(outputBlocks: number): void {
    if (outputBlocks <= this.#outputBlocks || this.#released) return
    this.#outputBlocks = outputBlocks
    if (this.#progressQueued || this.#lease === null) return
    this.#progressQueued = true
    this.#say((lease) => {
      this.#progressQueued = false
      return lease.progress(this.#outputBlocks)
    })
  }

  /**
   * Ends the booking; later calls do nothing. Resolves when the object knows, or cannot be told; never rejects.
   * null: it knows already.
   */
  release(outcome: Outcome): Promise<void> | null {
    if (!this.#released) {
      this.#released = true
      this.#arrived()
      this.#renewal.cancel()
      if (this.#known || this.#lease !== null || this.#queued > 0) {
        this.#say((lease) => lease.release(outcome))
      }
    }
    return this.#queued === 0 ? null : this.#tail
  }

  #arrived(): void {
    this.#sent?.over()
    this.#sent = null
  }

  #renewLater(): Timer {
    const { alarms = defaultTimers, leaseMs } = this.#parts
    return alarms.set(leaseMs / 3, () => this.#renew())
  }

  #renew(): void {
    // A call on its way is a sign of life too.
    if (this.#queued === 0) this.#sayLater((lease) => lease.renew())
    this.#renewal = this.#renewLater()
  }

  #say(step: Step): void {
    if (this.#queued > 0 || this.#lease?.inProcess !== true) return this.#sayLater(step)
    try {
      void step(this.#lease)
    } catch {
      this.#sayLater(step)
    }
  }

  #sayLater(step: Step): void {
    this.#queued++
    this.#tail = this.#tail.then(async () => {
      await this.#deliver(step)
      this.#queued--
    })
  }

  async #deliver(step: Step): Promise<void> {
    if (this.#lease !== null) {
      try {
        return await step(this.#lease)
      } catch (error) {
        this.#parts.log.debug('booking_lost', { id: this.#parts.admission.id, error })
        this.#lease = null
      }
    }
    // Never booked and over by now: nothing to end.
    if (this.#released && !this.#known) return
    try {
      this.#lease = await this.#parts.cluster.resume(this.#asResume(), this.#parts.scope)
      this.#known = true
      await step(this.#lease)
    } catch (error) {
      this.#lease = null
      this.#parts.log.warn('booking_unreachable', { id: this.#parts.admission.id, error })
    }
  }

  #asResume(): Resume {
    const { admission, placement } = this.#parts
    return {
      admission,
      placement,
      firstTokenSeen: this.#firstTokenSeen,
      legsDone: this.#legsDone,
      outputBlocks: this.#outputBlocks,
    }
  }
}
