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
import type { Renewal } from '../../core/contract/renewal.ts'
import type { Resume } from '../../core/contract/resume.ts'
import type { StageTimes } from '../../core/contract/stages.ts'
import type {
  AdmitResult,
  KvEventFeed,
  LocalState,
  PoolCosts,
  PoolDecisions,
  PoolOverview,
  PoolPort,
  PoolQueue,
  PoolRegistry,
  RegionDigestSource,
} from '../../ports/pool.ts'
import type { Lease } from '../../ports/lease.ts'
import { defaultTimers } from '../../timers.ts'

/** Calls a PoolState directly. */
export class LocalPool implements PoolPort {
  readonly #state: PoolState
  readonly #now: () => number
  #isTicking = false
  readonly local: LocalState
  readonly queue: PoolQueue
  readonly registry: PoolRegistry
  readonly kvEvents: KvEventFeed
  readonly decisions: PoolDecisions
  readonly overview: PoolOverview
  readonly costs: PoolCosts
  readonly region: RegionDigestSource

  constructor(state: PoolState, now: () => number) {
    this.#state = state
    this.#now = now
    this.local = {
      admit: (admission) => this.admitNow(admission),
      apply: (event) => this.#apply(event),
      watch: () => state.watch(now()),
    }
    this.queue = {
      wait: (admission, waitedMs) => this.#wait(admission, waitedMs),
      leave: async (key) => state.leave(key, now()),
    }
    this.registry = { call: async (call) => state.registry.call(call, now()) }
    this.kvEvents = { feed: async (feeds) => state.feed(feeds, now()) }
    this.decisions = {
      dryRun: async (admission) => state.rank(admission, now()),
      explain: async (id) => state.explain(id),
    }
    this.overview = { summary: async (decisions, historySince = 0) => state.summary(decisions, historySince, now()) }
    this.costs = { costOf: (key) => state.costOf(key) }
    this.region = { digest: async () => state.regionDigest(now()) }
  }

  async configure(version: number, pool: PoolConfig): Promise<void> {
    this.#state.configure(version, pool, this.#now())
  }

  async admit(admission: Admission): Promise<AdmitResult> {
    return this.admitNow(admission)
  }

  /** `admit` without a promise. */
  admitNow(admission: Admission): AdmitResult {
    return this.#leased(this.#state.admit(admission, this.#now()))
  }

  #wait(admission: Admission, waitedMs: number): Promise<AdmitResult> {
    return new Promise((resolve) => {
      const done = (answer: AdmissionResult): void => resolve(this.#leased(answer))
      this.#state.wait(admission, { now: this.#now(), waitedMs, done })
      if (!this.#isTicking) this.#tick()
    })
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
    const leased = { lease, placement, policy, predictedTtftMs }
    return events === undefined ? leased : { ...leased, events }
  }

  async resume(booking: Resume): Promise<Lease> {
    const resumed = this.#state.resume(booking, this.#now())
    if ('refusal' in resumed) throw new Error(resumed.refusal.detail)
    return new LocalLease(this.#state, this.#now, resumed)
  }

  #apply(event: BookingEvent | readonly [kind: 'book', booking: Resume]): boolean {
    const now = this.#now()
    return event[0] === 'book' ? !('refusal' in this.#state.resume(event[1], now)) : applyEvent(this.#state, event, now)
  }

  async observe(signals: readonly EngineSignal[]): Promise<readonly string[]> {
    return this.#state.observe(signals, this.#now())
  }

  async digest() {
    return this.#state.digest(this.#now())
  }
}

/** Resolved promise for all calls. */
const done = Promise.resolve()

class LocalLease implements Lease {
  readonly keepsOrder = true
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

  async renew(): Promise<Renewal> {
    const renewal = this.#state.renew(this.#key, this.#now())
    if (renewal === false) throw new Error('unknown booking (expired or restarted): call resume')
    return renewal
  }

  release(outcome: Outcome): Promise<void> {
    this.#state.release(this.#key, outcome, this.#now())
    return done
  }
}
