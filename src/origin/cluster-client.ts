/** Cluster port for pool state in another thread or in a Durable Object: one proxy for all transports. */
import type {
  Admission,
  EngineSignal,
  Outcome,
  PoolConfig,
  Refusal,
  Resume,
  StageTimes,
  Usage,
} from '../core/contract/contract.ts'
import type { KvEventDelta } from '../core/kv-events/delta-log.ts'
import type { RegistryAnswer, RegistryCall } from '../core/lmcache/registry-call.ts'
import { EdgeRefusals } from '../core/overload/edge-refusals.ts'
import { bookingKey } from '../core/pool/bookings.ts'
import type { EarlyLegRole, BookingEvent } from '../core/contract/legs.ts'
import type { Admitted, Cluster, Lease, RequestScope } from '../ports.ts'

/** Methods of a pool that a transport calls by name, with plain data. */
export type PoolMethod = Exclude<keyof Cluster, 'admit' | 'admitNow' | 'wait' | 'resume' | 'applyNow'>

/** Admission result in transport form: without the lease, which both sides create themselves. */
export type AdmitAnswer =
  | { readonly refusal: Refusal }
  | Omit<Exclude<Admitted, { readonly refusal: Refusal }>, 'lease'>

type Scope = Pick<RequestScope, 'background'>

/** Carries calls and booking events to the pool. Calls reject if the pool is unreachable. */
export interface ClusterTransport {
  call(method: PoolMethod, args: readonly unknown[]): Promise<unknown>
  admit(admission: Admission): Promise<AdmitAnswer>
  /** As `Cluster.wait`. */
  wait(admission: Admission, waitedMs: number): Promise<AdmitAnswer>
  /** As `Cluster.admitLimitMs`. Absent: no limit. */
  admitLimitMs?(): number | null
  /** Rejects if the pool refuses. */
  resume(booking: Resume): Promise<void>
  /** false: the pool does not have the booking of this key (`bookingKey`). */
  renew(key: string): Promise<boolean>
  /** Delivers events in order. Never rejects; the caller need not wait. `scope` keeps the delivery alive. */
  send(event: BookingEvent, scope: Scope | undefined): Promise<void>
}

export interface ClusterClientParts {
  readonly transport: ClusterTransport
  readonly now: () => number
  /** In [0, 1). */
  readonly random: () => number
}

export class ClusterClient implements Cluster {
  readonly #transport: ClusterTransport
  readonly #now: () => number
  readonly #refusals: EdgeRefusals

  constructor({ transport, now, random }: ClusterClientParts) {
    this.#transport = transport
    this.#now = now
    this.#refusals = new EdgeRefusals(random)
  }

  /** Asks the pool, unless it refuses so many requests that this edge refuses a part of them itself. */
  async admit(admission: Admission, scope?: Scope): Promise<Admitted> {
    const refusal = this.#refusals.answer(admission, this.#now())
    if (refusal !== null) return { refusal }
    const answer = await this.#asked(admission)
    this.#refusals.answered(admission, 'refusal' in answer ? answer.refusal : null, this.#now())
    return this.#leased(admission, answer, scope)
  }

  async #asked(admission: Admission): Promise<AdmitAnswer> {
    const edgeRefusals = this.#refusals.take()
    if (edgeRefusals === 0) return this.#transport.admit(compact(admission))
    try {
      return await this.#transport.admit({ ...compact(admission), edgeRefusals })
    } catch (error) {
      this.#refusals.giveBack(edgeRefusals)
      throw error
    }
  }

  async wait(admission: Admission, waitedMs: number, scope?: Scope): Promise<Admitted> {
    return this.#leased(admission, await this.#transport.wait(compact(admission), waitedMs), scope)
  }

  async leave(key: string): Promise<void> {
    await this.#transport.call('leave', [key])
  }

  admitLimitMs(): number | null {
    return this.#transport.admitLimitMs?.() ?? null
  }

  async resume(booking: Resume, scope?: Scope): Promise<Lease> {
    await this.#transport.resume({ ...booking, admission: compact(booking.admission) })
    return this.#lease(booking.admission, scope)
  }

  async configure(version: number, pool: PoolConfig): Promise<void> {
    await this.#transport.call('configure', [version, pool])
  }

  async observe(signals: readonly EngineSignal[]): Promise<readonly string[]> {
    // An object of an earlier version returns nothing.
    return ((await this.#transport.call('observe', [signals])) as readonly string[] | undefined) ?? []
  }

  rank(admission: Admission) {
    return this.#transport.call('rank', [compact(admission)]) as ReturnType<Cluster['rank']>
  }

  registry(call: RegistryCall) {
    return this.#transport.call('registry', [call]) as Promise<RegistryAnswer>
  }

  feed(feeds: readonly KvEventDelta[]) {
    return this.#transport.call('feed', [feeds]) as ReturnType<NonNullable<Cluster['feed']>>
  }

  digest() {
    return this.#transport.call('digest', []) as ReturnType<Cluster['digest']>
  }

  regionDigest() {
    return this.#transport.call('regionDigest', []) as ReturnType<Cluster['regionDigest']>
  }

  explain(id: string) {
    return this.#transport.call('explain', [id]) as ReturnType<Cluster['explain']>
  }

  summary(decisions: number, historySince = 0) {
    return this.#transport.call('summary', [decisions, historySince]) as ReturnType<NonNullable<Cluster['summary']>>
  }

  #leased(admission: Admission, answer: AdmitAnswer, scope: Scope | undefined): Admitted {
    return 'refusal' in answer ? answer : { lease: this.#lease(admission, scope), ...answer }
  }

  #lease(admission: Admission, scope: Scope | undefined): Lease {
    return new RemoteLease(this.#transport, bookingKey(admission), scope)
  }
}

const done = Promise.resolve()

/** A booking of a remote pool. Only `renew` waits for an answer. */
class RemoteLease implements Lease {
  readonly inProcess = true
  readonly #transport: ClusterTransport
  readonly #key: string
  readonly #scope: Scope | undefined
  #released = false

  constructor(transport: ClusterTransport, key: string, scope: Scope | undefined) {
    this.#transport = transport
    this.#key = key
    this.#scope = scope
  }

  legDone(part: EarlyLegRole, stages: StageTimes, usage: Usage | null = null): Promise<void> {
    return this.#send(['leg_done', this.#key, part, stages, usage])
  }

  firstToken(stages: StageTimes): Promise<void> {
    return this.#send(['first_token', this.#key, stages])
  }

  progress(outputBlocks: number): Promise<void> {
    return this.#send(['progress', this.#key, outputBlocks])
  }

  async renew(): Promise<void> {
    if (this.#released) throw new Error(`booking ${this.#key} was released: it cannot be renewed or resumed`)
    if (!(await this.#transport.renew(this.#key)))
      throw new Error(`the pool does not have booking ${this.#key}: resume it`)
  }

  release(outcome: Outcome): Promise<void> {
    const sent = this.#send(['release', this.#key, outcome])
    this.#released = true
    return sent
  }

  #send(event: BookingEvent): Promise<void> {
    return this.#released ? done : this.#transport.send(event, this.#scope)
  }
}

/** Applies an event to the lease of its booking. undefined: the pool has no use for the event. */
export function applyToLease(lease: Lease, event: BookingEvent): Promise<void> | undefined {
  switch (event[0]) {
    case 'leg_done':
      return lease.legDone?.(event[2], event[3], event[4])
    case 'first_token':
      return lease.firstToken(event[2])
    case 'progress':
      return lease.progress(event[2])
    case 'release':
      return lease.release(event[2])
  }
}

/** Copies a view into a buffer of its own, because structured clone copies the whole buffer of a view. */
function compact(admission: Admission): Admission {
  const { blocks } = admission
  return blocks.byteLength === blocks.buffer.byteLength ? admission : { ...admission, blocks: blocks.slice() }
}
