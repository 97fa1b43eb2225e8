/** Cluster port for pool state in this process: each call takes effect before it returns. */
import { applyEvent, type BookingEvent, type EarlyLegRole } from '../core/contract/legs.ts'
import type { ClusterState, BookingHandle } from '../core/pool/pool-state.ts'
import { type Answer, WAKE_MS } from '../core/pool/waiting-room.ts'
import type {
  Admission,
  EngineSignal,
  Outcome,
  PoolConfig,
  Resume,
  StageTimes,
  Usage,
} from '../core/contract/contract.ts'
import type { KvEventDelta } from '../core/kv-events/delta-log.ts'
import type { RegistryCall } from '../core/lmcache/registry-call.ts'
import type { Admitted, Cluster, Lease } from '../ports.ts'
import { defaultTimers } from './timers.ts'

/** Calls a ClusterState directly. */
export class LocalCluster implements Cluster {
  readonly #state: ClusterState
  readonly #now: () => number
  #isTicking = false

  constructor(state: ClusterState, now: () => number) {
    this.#state = state
    this.#now = now
  }

  async configure(version: number, pool: PoolConfig): Promise<void> {
    this.#state.configure(version, pool, this.#now())
  }

  async admit(admission: Admission): Promise<Admitted> {
    return this.admitNow(admission)
  }

  admitNow(admission: Admission): Admitted {
    return this.#leased(this.#state.admit(admission, this.#now()))
  }

  wait(admission: Admission, waitedMs: number): Promise<Admitted> {
    return new Promise((resolve) => {
      const done = (answer: Answer): void => resolve(this.#leased(answer))
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

  #leased(admitted: Answer): Admitted {
    if ('refusal' in admitted) return admitted
    const { placement, policy, predictedTtftMs, events } = admitted
    const lease = new LocalLease(this.#state, this.#now, admitted)
    return { lease, placement, policy, predictedTtftMs, ...(events === undefined ? {} : { events }) }
  }

  async resume(booking: Resume): Promise<Lease> {
    const held = this.#state.resume(booking, this.#now())
    if ('refusal' in held) throw new Error(held.refusal.detail)
    return new LocalLease(this.#state, this.#now, held)
  }

  applyNow(event: BookingEvent | readonly [said: 'book', booking: Resume]): boolean {
    const now = this.#now()
    return event[0] === 'book' ? !('refusal' in this.#state.resume(event[1], now)) : applyEvent(this.#state, event, now)
  }

  async rank(admission: Admission) {
    return this.#state.rank(admission, this.#now())
  }

  async observe(signals: readonly EngineSignal[]): Promise<readonly string[]> {
    return this.#state.observe(signals, this.#now())
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
  readonly #state: ClusterState
  readonly #now: () => number
  readonly #key: string

  constructor(state: ClusterState, now: () => number, { key }: BookingHandle) {
    this.#state = state
    this.#now = now
    this.#key = key
  }

  legDone(part: EarlyLegRole, stages: StageTimes, usage: Usage | null = null): Promise<void> {
    this.#state.legDone(this.#key, { part, stages, usage }, this.#now())
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
    if (!this.#state.renew(this.#key, this.#now())) throw new Error('the booking is not known here any more: resume it')
  }

  release(outcome: Outcome): Promise<void> {
    this.#state.release(this.#key, outcome, this.#now())
    return done
  }
}
