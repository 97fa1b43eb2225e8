import type { ClusterObject } from '../../../durable/cluster.ts'
import type { Admission, EngineSignal, Outcome, PoolConfig, Resume, StageTimes, Usage } from '../../core/cluster/contract.ts'
import type { KvFeed, KvFeedState } from '../../core/kv-events/feed.ts'
import type { RegistryAnswer, RegistryCall } from '../../core/lmcache/registry-call.ts'
import type { Admitted, Cluster, Lease } from '../../ports.ts'

type Stub = DurableObjectStub<ClusterObject>

/** A ClusterLease as it looks from here. */
interface WireLease extends Required<Omit<Lease, 'renew' | 'inProcess'>> {
  /** false: the booking is not known there any more. */
  renew(): Promise<boolean>
}

/** A ClusterObject behind the port. Rejects when the object cannot be reached; the caller then falls back. */
export class RemoteCluster implements Cluster {
  readonly #open: () => Stub

  constructor(open: () => Stub) {
    this.#open = open
  }

  async configure(version: number, pool: PoolConfig): Promise<void> {
    await this.#call((stub) => stub.configure(version, pool))
  }

  async admit(admission: Admission): Promise<Admitted> {
    // Safe to ask twice: the object answers the same again for a booking it holds.
    const answer = await this.#call(async (stub) => stub.admit(admission))
    if ('refusal' in answer) {
      const { refusal } = answer
      answer[Symbol.dispose]()
      return { refusal }
    }
    const { placement, policy, predictedTtftMs } = answer
    const lease = new RemoteLease(answer.lease, answer, (outcome) => this.#settle(admission, outcome))
    return { lease, placement, policy, predictedTtftMs }
  }

  async resume(booking: Resume): Promise<Lease> {
    const answer = await this.#call(async (stub) => stub.resume(booking))
    if ('refusal' in answer) {
      const { detail } = answer.refusal
      answer[Symbol.dispose]()
      throw new Error(detail)
    }
    return new RemoteLease(answer.lease, answer, (outcome) => this.#settle(booking.admission, outcome))
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

  feed(feeds: readonly KvFeed[]): Promise<readonly KvFeedState[]> {
    return this.#call(async (stub) => stub.feed(feeds))
  }

  digest() {
    return this.#call(async (stub) => stub.digest())
  }

  explain(id: string) {
    return this.#call(async (stub) => stub.explain(id))
  }

  glance(decisions: number) {
    return this.#call(async (stub) => stub.glance(decisions))
  }

  async #settle(admission: Admission, outcome: Outcome): Promise<void> {
    await this.#call((stub) => stub.settle({ id: admission.id, attempt: admission.attempt }, outcome))
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

/** A lease over RPC, and the way around it when its session broke. */
class RemoteLease implements Lease {
  readonly #stub: WireLease
  readonly #session: Disposable
  readonly #settle: (outcome: Outcome) => Promise<void>
  #released = false

  constructor(stub: WireLease, session: Disposable, settle: (outcome: Outcome) => Promise<void>) {
    this.#stub = stub
    this.#session = session
    this.#settle = settle
  }

  async legDone(part: 'encode' | 'prefill', stages: StageTimes, usage?: Usage | null): Promise<void> {
    // An object older than this edge has no such call; the first token ends the leg there.
    if (!this.#released) await this.#stub.legDone(part, stages, usage).catch(() => {})
  }

  async firstToken(stages: StageTimes): Promise<void> {
    if (!this.#released) await this.#stub.firstToken(stages)
  }

  async progress(outputBlocks: number): Promise<void> {
    if (!this.#released) await this.#stub.progress(outputBlocks)
  }

  async renew(): Promise<void> {
    if (this.#released) throw new Error('the booking was released: there is nothing to renew or resume')
    if (!(await this.#stub.renew())) throw new Error('the booking is not known there any more: resume it')
  }

  async release(outcome: Outcome): Promise<void> {
    if (this.#released) return
    this.#released = true
    try {
      await this.#stub.release(outcome)
    } catch {
      // The session is gone, the booking may live on in a snapshot: name it.
      await this.#settle(outcome)
    } finally {
      this.#session[Symbol.dispose]()
    }
  }
}

function isRetryable(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  const { retryable, overloaded } = error as { readonly retryable?: boolean; readonly overloaded?: boolean }
  return retryable === true && overloaded !== true
}
