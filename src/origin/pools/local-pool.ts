/** Pool port for pool state in this process: each call takes effect before it returns. */
import { applyEvent } from '../../core/pool/apply-event.ts'
import type { BookingEvent } from '../../core/contract/booking-event.ts'
import type { EarlyLegRole } from '../../core/contract/legs.ts'
import type { PoolState } from '../../core/pool/pool-state.ts'
import type { BookingHandle } from '../../core/pool/admission-result.ts'
import type { AdmissionResult } from '../../core/pool/admission-result.ts'
import { WAKE_MS } from '../../core/pool/queue/waiting-room.ts'
import type { Admission } from '../../core/contract/admission.ts'
import type { EngineSignal } from '../../core/contract/engine-signal.ts'
import type { Outcome, Usage } from '../../core/contract/outcome.ts'
import type { PoolConfig } from '../../core/contract/pool-config.ts'
import type { Resume } from '../../core/contract/resume.ts'
import type { StageTimes } from '../../core/contract/stages.ts'
import type { KvEventDelta } from '../../core/kv-events/event-delta.ts'
import type { RegistryCall } from '../../core/lmcache/registry-call.ts'
import type { AdmitResult, PoolPort } from '../../ports/pool.ts'
import type { Lease } from '../../ports/lease.ts'
import { defaultTimers } from '../../timers.ts'

/** Calls a PoolState directly. */
export class LocalPool implements PoolPort {
  readonly #state: PoolState
  readonly #now: () => number
  #isTicking = false

  constructor(state: PoolState, now: () => number) {
    this.#state = state
    this.#now = now
  }

  async configure(version: number, pool: PoolConfig): Promise<void> {
    this.#state.configure(version, pool, this.#now())
  }

  async admit(admission: Admission): Promise<AdmitResult> {
    return this.admitNow(admission)
  }

  admitNow(admission: Admission): AdmitResult {
    return this.#leased(this.#state.admit(admission, this.#now()))
  }

  wait(admission: Admission, waitedMs: number): Promise<AdmitResult> {
    return new Promise((resolve) => {
      const done = (answer: AdmissionResult): void => resolve(this.#leased(answer))
      this.#state.wait(admission, { now: this.#now(), waitedMs, done })
      if (!this.#isTicking) this.#tick()
    })
  }

  async leave(key: string): Promise<void> {
    this.#state.leave(key, this.#now())
  }

  /** Wakes waiting requests until there are none. */
  #tick(): void {
    this.#isTicking = this.#state.waiting > 0
    if (!this.#isTicking) return
    defaultTimers.set(WAKE_MS, () => {
      this.#state.wake(this.#now())
      this.#tick()
    })
  }

  #leased(admitted: AdmissionResult): AdmitResult {
    if ('refusal' in admitted) return admitted
    const { placement, policy, predictedTtftMs, events } = admitted
    const lease = new LocalLease(this.#state, this.#now, admitted)
    return { lease, placement, policy, predictedTtftMs, ...(events === undefined ? {} : { events }) }
  }

  async resume(booking: Resume): Promise<Lease> {
    const resumed = this.#state.resume(booking, this.#now())
    if ('refusal' in resumed) throw new Error(resumed.refusal.detail)
    return new LocalLease(this.#state, this.#now, resumed)
  }

  applyNow(event: BookingEvent | readonly [kind: 'book', booking: Resume]): boolean {
    const now = this.#now()
    return event[0] === 'book' ? !('refusal' in this.#state.resume(event[1], now)) : applyEvent(this.#state, event, now)
  }

  async rank(admission: Admission) {
    return this.#state.rank(admission, this.#now())
  }

  async observe(signals: readonly EngineSignal[]): Promise<readonly string[]> {
    return this.#state.observe(signals, this.#now())
  }

  watchNow() {
    return this.#state.watch(this.#now())
  }

  async registry(call: RegistryCall) {
    return this.#state.registry.call(call, this.#now())
  }

  async feed(feeds: readonly KvEventDelta[]) {
    return this.#state.feed(feeds, this.#now())
  }

  async digest() {
    return this.#state.digest(this.#now())
  }

  async regionDigest() {
    return this.#state.regionDigest(this.#now())
  }

  costOf(key: string) {
    return this.#state.costOf(key)
  }

  async explain(id: string) {
    return this.#state.explain(id)
  }

  async summary(decisions: number, historySince = 0) {
    return this.#state.summary(decisions, historySince, this.#now())
  }
}

/** Resolved promise for all calls. */
const done = Promise.resolve()

class LocalLease implements Lease {
  readonly inProcess = true
  readonly #state: PoolState
  readonly #now: () => number
  readonly #key: string

  constructor(state: PoolState, now: () => number, { key }: BookingHandle) {
    this.#state = state
    this.#now = now
    this.#key = key
  }

  legDone(legRole: EarlyLegRole, stages: StageTimes, usage: Usage | null = null): Promise<void> {
    this.#state.legDone(this.#key, { legRole, stages, usage }, this.#now())
    return done
  }

  firstToken(stages: StageTimes): Promise<void> {
    this.#state.firstToken(this.#key, stages, this.#now())
    return done
  }

  progress(outputBlocks: number): Promise<void> {
    this.#state.progress(this.#key, outputBlocks, this.#now())
    return done
  }

  async renew(): Promise<void> {
    if (!this.#state.renew(this.#key, this.#now()))
      throw new Error('unknown booking (expired or restarted): call resume')
  }

  release(outcome: Outcome): Promise<void> {
    this.#state.release(this.#key, outcome, this.#now())
    return done
  }
}
