import type { ClusterObject } from '../../../durable/cluster.ts'
import { bookingKey } from '../../core/pool/bookings.ts'
import type {
  Admission,
  EngineSignal,
  Outcome,
  PoolConfig,
  Resume,
  StageTimes,
  Usage,
} from '../../core/contract/contract.ts'
import type { BookingEvent } from '../../core/contract/booking-events.ts'
import type { KvEventDelta, KvEventDeltaState } from '../../core/kv-events/delta.ts'
import type { RegistryAnswer, RegistryCall } from '../../core/lmcache/registry-call.ts'
import type { Admitted, Cluster, Lease, RequestScope } from '../../ports.ts'
import { EventBatcher } from './event-batcher.ts'

type Stub = DurableObjectStub<ClusterObject>
type Scope = Pick<RequestScope, 'background'>

/**
 * How long a notice waits for an `admit` that takes it along. A quiet isolate's engines look busy for this much longer,
 * which is less than an object may be away.
 */
const COMPANY_MS = 20
/** A busy isolate's carrier looks so often whether calls of others take everything along, before it makes one and is free. */
const MOST_LOOKS = 50
/** A carrier whose call failed tries once more. */
const AGAIN_MS = 1_000

const told = Promise.resolve()

/** A ClusterObject behind the port. Rejects when the object cannot be reached; the caller then falls back. */
export class RemoteCluster implements Cluster {
  readonly #open: () => Stub
  readonly #outbox: EventBatcher

  constructor(open: () => Stub, now: () => number = Date.now) {
    this.#open = open
    this.#outbox = new EventBatcher(now)
  }

  async configure(version: number, pool: PoolConfig): Promise<void> {
    await this.#call((stub) => stub.configure(version, pool))
  }

  /** Takes along what other requests have to say: a busy isolate needs no call besides. */
  async admit(admission: Admission, scope?: Scope): Promise<Admitted> {
    const parcel = this.#outbox.take()
    try {
      // Safe to ask twice: the object answers the same again for a booking it holds.
      const answer = await this.#call(async (stub) => stub.admit(admission, parcel.bookingEvents))
      this.#outbox.arrived(parcel)
      return 'refusal' in answer ? answer : { lease: this.#lease(admission, scope), ...answer }
    } catch (error) {
      this.#outbox.failed(parcel)
      throw error
    }
  }

  async resume(booking: Resume, scope?: Scope): Promise<Lease> {
    const answer = await this.#call(async (stub) => stub.resume(booking))
    if (answer !== null) throw new Error(answer.refusal.detail)
    return this.#lease(booking.admission, scope)
  }

  rank(admission: Admission) {
    return this.#call(async (stub) => stub.rank(admission))
  }

  async observe(signals: readonly EngineSignal[]): Promise<void> {
    await this.#call((stub) => stub.observe(signals))
  }

  registry(call: RegistryCall): Promise<RegistryAnswer> {
    return this.#call(async (stub) => (await stub.registry(call)) as RegistryAnswer)
  }

  feed(feeds: readonly KvEventDelta[]): Promise<readonly KvEventDeltaState[]> {
    return this.#call(async (stub) => stub.feed(feeds))
  }

  digest() {
    return this.#call(async (stub) => stub.digest())
  }

  outlook() {
    return this.#call(async (stub) => stub.outlook())
  }

  explain(id: string) {
    return this.#call(async (stub) => stub.explain(id))
  }

  glance(decisions: number) {
    return this.#call(async (stub) => stub.glance(decisions))
  }

  /** For `RemoteLease`. false: the object does not know the booking any more. */
  renew(key: string): Promise<boolean> {
    return this.#call(async (stub) => stub.renew(key))
  }

  /** For `RemoteLease`. Resolves when the object knows, or another request has promised to tell it. Never rejects. */
  say(bookingEvent: BookingEvent, scope: Scope | undefined): Promise<void> {
    if (!this.#outbox.add(bookingEvent, COMPANY_MS)) return told
    const carried = this.#carry()
    scope?.background(carried)
    return carried
  }

  #lease(admission: Admission, scope: Scope | undefined): Lease {
    return new RemoteLease(this, bookingKey(admission), scope)
  }

  async #carry(): Promise<void> {
    let waitMs = COMPANY_MS
    for (let looks = 0; waitMs > 0 && looks < MOST_LOOKS; looks++) {
      await scheduler.wait(waitMs)
      waitMs = this.#outbox.companyMs(COMPANY_MS)
    }
    for (const againMs of [AGAIN_MS, 0]) {
      this.#outbox.carrierFree()
      if (this.#outbox.isEmpty) return
      const parcel = this.#outbox.take()
      try {
        await this.#call((stub) => stub.tell(parcel.bookingEvents))
        return this.#outbox.arrived(parcel)
      } catch {
        this.#outbox.failed(parcel)
      }
      if (againMs > 0) await scheduler.wait(againMs)
    }
  }

  /** Once more on a fresh stub when the platform says that helps; an overloaded object is left alone. */
  async #call<Answer>(ask: (stub: Stub) => Promise<Answer>): Promise<Answer> {
    try {
      return await ask(this.#open())
    } catch (error) {
      if (!isRetryable(error)) throw error
      return ask(this.#open())
    }
  }
}

/** What a request says of its booking goes to the object in the company of others' words. */
class RemoteLease implements Lease {
  readonly inProcess = true
  readonly #cluster: RemoteCluster
  readonly #key: string
  readonly #scope: Scope | undefined
  #released = false

  constructor(cluster: RemoteCluster, key: string, scope: Scope | undefined) {
    this.#cluster = cluster
    this.#key = key
    this.#scope = scope
  }

  legDone(part: 'encode' | 'prefill', stages: StageTimes, usage: Usage | null = null): Promise<void> {
    return this.#say(['leg_done', this.#key, part, stages, usage])
  }

  firstToken(stages: StageTimes): Promise<void> {
    return this.#say(['first_token', this.#key, stages])
  }

  progress(outputBlocks: number): Promise<void> {
    return this.#say(['progress', this.#key, outputBlocks])
  }

  async renew(): Promise<void> {
    if (this.#released) throw new Error('the booking was released: there is nothing to renew or resume')
    if (!(await this.#cluster.renew(this.#key))) throw new Error('the booking is not known there any more: resume it')
  }

  release(outcome: Outcome): Promise<void> {
    const said = this.#say(['release', this.#key, outcome])
    this.#released = true
    return said
  }

  #say(bookingEvent: BookingEvent): Promise<void> {
    return this.#released ? told : this.#cluster.say(bookingEvent, this.#scope)
  }
}

function isRetryable(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  const { retryable, overloaded } = error as { readonly retryable?: boolean; readonly overloaded?: boolean }
  return retryable === true && overloaded !== true
}
