/** Renews the booking of a request while it runs, and releases it exactly once. */
import { engineIdsOf, type EarlyLegRole } from '../core/contract/legs.ts'
import type { Admission } from '../core/contract/admission.ts'
import type { Outcome, Usage } from '../core/contract/outcome.ts'
import type { Placement } from '../core/contract/placement.ts'
import type { Renewal } from '../core/contract/renewal.ts'
import type { Resume } from '../core/contract/resume.ts'
import type { StageTimes } from '../core/contract/stages.ts'
import type { Ports } from '../ports.ts'
import type { Timer, Timers } from '../ports/timers.ts'
import type { PoolPort } from '../ports/pool.ts'
import type { Lease } from '../ports/lease.ts'
import type { Log } from '../ports/log.ts'
import type { RequestScope } from '../ports/request-scope.ts'
import { serverIdOf } from '../core/contract/rank-id.ts'
import type { RunningBookings } from './pause/running-bookings.ts'
import type { InFlightPrompt } from './regions/region-estimator.ts'

/** What a booking is made from, before the pool has placed it. */
export interface BookingParts {
  readonly pool: PoolPort
  readonly admission: Admission
  readonly leaseMs: number
  readonly log: Log
  readonly ports: Pick<Ports, 'now'>
  readonly timers: Timers
  /** Keeps messages of the booking alive. */
  readonly scope?: RequestScope | undefined
  /** Pool of the booking, and the set that has it while it runs. Absent: it cannot be fenced. */
  readonly runsIn?: { readonly cluster: string; readonly pool: string; readonly bookings: RunningBookings }
  /** Called with the admission of each booking that was released. Absent: its cost is not counted. */
  readonly charge?: Charge
}

export type Charge = (admission: Admission) => void

type LeaseCall = (lease: Lease) => Promise<void>

/** Interval of renewals while the engine is paused, ms: its answer may have to end soon. */
const PAUSED_RENEWAL_MS = 1_000

const done = Promise.resolve()

const nothingSent = (): void => undefined

/** Costs of the pool are not counted. */
export const noCharge: Charge = () => undefined

/** Interval of the renewals of a booking, ms. */
export const renewalMs = (leaseMs: number): number => leaseMs / 3

/**
 * Calls the object in order, one call at a time, and never fails its request. If the object lost the booking, it is
 * booked again; if the object is unreachable, the next renewal tries again.
 */
export class LeaseKeeper {
  /** Index among the running bookings. */
  runningIndex = -1
  #parts: BookingParts
  #placement: Placement
  #lease: Lease | null
  /** The object has had this booking, so it needs the release. */
  #known: boolean
  #renewal: Timer
  #tail: Promise<void> = done
  #queued = 0
  #firstTokenSeen = false
  #legsDone: readonly EarlyLegRole[] = []
  #outputBlocks = 0
  #progressQueued = false
  #released = false
  /** Time of the placement, ms since the epoch. */
  #placedAt: number
  #endInFlight: () => void = nothingSent
  #isFenced = false
  #onFence: () => void = nothingSent
  readonly #charge: Charge

  /** @param lease null: placed without the object, which was unreachable. It gets the booking once it is reachable. */
  constructor(parts: BookingParts, placement: Placement, lease: Lease | null) {
    this.#parts = parts
    this.#placement = placement
    this.#placedAt = parts.ports.now()
    this.#charge = parts.charge ?? noCharge
    parts.runsIn?.bookings.add(this)
    this.#lease = lease
    this.#known = lease !== null
    this.#renewal = this.#renewLater()
  }

  /** Books a request that was placed without the object. */
  sendBooking(): void {
    this.#enqueue(() => done)
  }

  /** Counts the prompt towards its region until the first token or the end. */
  sent(sent: Pick<InFlightPrompt, 'end'>): void {
    this.#endInFlight = () => {
      this.#endInFlight = nothingSent
      sent.end()
    }
  }

  /** Whether the booking has one of these engines, or a rank of one of these servers. */
  isAt(cluster: string, pool: string, engines: readonly string[]): boolean {
    const { runsIn } = this.#parts
    if (runsIn?.cluster !== cluster || runsIn.pool !== pool) return false
    return engineIdsOf(this.#placement).some((id) => engines.includes(id) || engines.includes(serverIdOf(id)))
  }

  /** Ends the call to the engine, because its answer may not go on. */
  fence(): void {
    this.#isFenced = true
    this.#onFence()
  }

  /** Calls `end` when the booking is fenced, at once if it was. */
  onFence(end: () => void): void {
    const { scope } = this.#parts
    this.#onFence = scope?.bind?.(end) ?? end
    if (this.#isFenced) end()
  }

  /** Ends the early legs of a role. Has effect once per role. */
  legDone(legRole: EarlyLegRole, stages: StageTimes, usage: Usage | null = null): void {
    if (this.#legsDone.includes(legRole) || this.#firstTokenSeen || this.#released) return
    this.#legsDone = [...this.#legsDone, legRole]
    if (this.#lease !== null) this.#send((lease) => lease.legDone(legRole, stages, usage))
  }

  /** Ends the prefill. Has effect once. */
  firstToken(stages: StageTimes): void {
    if (this.#firstTokenSeen || this.#released) return
    this.#firstTokenSeen = true
    this.#endInFlight()
    if (this.#lease !== null) this.#send((lease) => lease.firstToken(stages))
  }

  /** Reports the output so far, in blocks. Of several waiting calls only the last is sent. */
  progress(outputBlocks: number): void {
    if (outputBlocks <= this.#outputBlocks || this.#released) return
    this.#outputBlocks = outputBlocks
    if (this.#progressQueued || this.#lease === null) return
    this.#progressQueued = true
    this.#send((lease) => {
      this.#progressQueued = false
      return lease.progress(this.#outputBlocks)
    })
  }

  /** Ends the booking on its engines with `outcome`, and books on others that serve the request instead. */
  moveTo(placement: Placement, outcome: Outcome): void {
    if (this.#released) return
    this.#send((lease) => lease.release(outcome))
    const { admission, ports } = this.#parts
    const placedAt = ports.now()
    this.#charge(admission)
    this.#enqueue(
      async () => undefined,
      () => {
        this.#lease = null
        this.#placedAt = placedAt
        this.#placement = placement
        this.#parts = { ...this.#parts, admission: { ...admission, attempt: admission.attempt + 1 } }
      },
    )
  }

  /**
   * Ends the booking. Has effect once. Resolves when the object has the release or is unreachable; never rejects.
   * null: the object has it already.
   */
  release(outcome: Outcome): Promise<void> | null {
    if (!this.#released) {
      this.#released = true
      this.#endInFlight()
      this.#parts.runsIn?.bookings.delete(this)
      this.#renewal.cancel()
      if (this.#known || this.#lease !== null || this.#queued > 0) {
        this.#send((lease) => lease.release(outcome))
        this.#charge(this.#parts.admission)
      }
    }
    return this.#queued === 0 ? null : this.#tail
  }

  #renewLater(afterMs = renewalMs(this.#parts.leaseMs)): Timer {
    return this.#parts.timers.set(afterMs, () => this.#renew())
  }

  #renew(): void {
    // A call in progress renews the lease too.
    if (this.#queued === 0) this.#enqueue(async (lease) => this.#renewed(await lease.renew()))
    this.#renewal = this.#renewLater()
  }

  #renewed(renewal: Renewal | void): void {
    if (this.#released) return
    if (renewal === 'fenced') return this.fence()
    if (renewal !== 'paused') return
    this.#renewal.cancel()
    this.#renewal = this.#renewLater(Math.min(PAUSED_RENEWAL_MS, renewalMs(this.#parts.leaseMs)))
  }

  #send(step: LeaseCall): void {
    if (this.#queued > 0 || this.#lease?.keepsOrder !== true) return this.#enqueue(step)
    try {
      void step(this.#lease)
    } catch {
      this.#enqueue(step)
    }
  }

  #enqueue(step: LeaseCall, before?: () => void): void {
    this.#queued++
    this.#tail = this.#tail.then(async () => {
      before?.()
      await this.#deliver(step)
      this.#queued--
    })
  }

  async #deliver(step: LeaseCall): Promise<void> {
    if (this.#lease !== null) {
      try {
        return await step(this.#lease)
      } catch (error) {
        this.#parts.log.debug('booking_lost', { id: this.#parts.admission.id, error })
        this.#lease = null
      }
    }
    // Never booked and ended by now: nothing to release.
    if (this.#released && !this.#known) return
    try {
      this.#lease = await this.#parts.pool.resume(this.#asResume(), this.#parts.scope)
      this.#known = true
      await step(this.#lease)
    } catch (error) {
      this.#lease = null
      this.#parts.log.warn('booking_unreachable', { id: this.#parts.admission.id, error })
    }
  }

  #asResume(): Resume {
    const { admission, ports } = this.#parts
    return {
      admission,
      placement: this.#placement,
      ageMs: ports.now() - this.#placedAt,
      firstTokenSeen: this.#firstTokenSeen,
      legsDone: this.#legsDone,
      outputBlocks: this.#outputBlocks,
    }
  }
}
