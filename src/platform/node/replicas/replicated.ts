/** A pool's ledger that publishes its bookings to the other replicas. */
import type { Admission, EngineSignal, PoolConfig, Resume, ReplicaDigest } from '../../../core/contract/contract.ts'
import type { KvEventDelta } from '../../../core/kv-events/delta-log.ts'
import type { RegistryCall } from '../../../core/lmcache/registry-call.ts'
import type { Admitted, Cluster, Lease } from '../../../ports.ts'
import { packedCall } from './messages.ts'
import { type Made, OpenBooking } from './open-bookings.ts'
import type { PoolFeed } from './pool-feed.ts'

export interface Shared {
  readonly feed: PoolFeed
  readonly replicas: () => { readonly replicas: readonly ReplicaDigest[]; readonly replicasUp: boolean }
  /** null: the pool is not configured any more. */
  readonly pool: () => Pick<PoolConfig, 'blockTokens' | 'leaseMs'> | null
}

export class ReplicatedCluster implements Cluster {
  readonly #ledger: Cluster
  readonly #shared: Shared

  constructor(ledger: Cluster, shared: Shared) {
    this.#ledger = ledger
    this.#shared = shared
  }

  configure(version: number, pool: PoolConfig): Promise<void> {
    this.#shared.feed.open.configured(pool.engines.map(({ id }) => id))
    return this.#ledger.configure(version, pool)
  }

  async admit(admission: Admission): Promise<Admitted> {
    return this.#published(admission, await this.#ledger.admit(admission))
  }

  admitNow(admission: Admission): Admitted | null {
    const admitted = this.#ledger.admitNow?.(admission) ?? null
    return admitted === null ? null : this.#published(admission, admitted)
  }

  async wait(admission: Admission, waitedMs: number): Promise<Admitted> {
    return this.#published(admission, await this.#ledger.wait!(admission, waitedMs))
  }

  leave(key: string): Promise<void> {
    return this.#ledger.leave!(key)
  }

  async resume(booking: Resume): Promise<Lease> {
    const lease = await this.#ledger.resume(booking)
    // A booking that has ended is not booked again, and not published.
    const isBooked = await lease.renew().then(
      () => true,
      () => false,
    )
    return isBooked ? this.#lease(lease, booking) : lease
  }

  rank(admission: Admission) {
    return this.#ledger.rank(admission)
  }

  async observe(signals: readonly EngineSignal[]): Promise<readonly string[]> {
    for (const signal of signals) this.#shared.feed.open.signalled(signal)
    return this.#ledger.observe(signals)
  }

  registry(call: RegistryCall) {
    if (call.kind !== 'list' && call.kind !== 'lookup') this.#shared.feed.open.announce(['registry', packedCall(call)])
    return this.#ledger.registry!(call)
  }

  feed(feeds: readonly KvEventDelta[]) {
    return this.#ledger.feed!(feeds)
  }

  async digest() {
    return { ...(await this.#ledger.digest()), ...this.#shared.replicas() }
  }

  regionDigest() {
    return this.#ledger.regionDigest()
  }

  async explain(id: string) {
    return (await this.#ledger.explain(id)) ?? this.#shared.feed.explain(id)
  }

  async summary(decisions: number, historySince = 0) {
    const { digest, ...rest } = await this.#ledger.summary!(decisions, historySince)
    return { ...rest, digest: { ...digest, ...this.#shared.replicas() } }
  }

  #published(admission: Admission, admitted: Admitted): Admitted {
    if ('refusal' in admitted) return admitted
    return { ...admitted, lease: this.#lease(admitted.lease, { admission, placement: admitted.placement }) }
  }

  #lease(
    lease: Lease,
    { admission, placement, ...course }: Pick<Made, 'admission' | 'placement'> & Partial<Resume>,
  ): OpenBooking {
    const { blockTokens, leaseMs } = this.#shared.pool() ?? { blockTokens: 1, leaseMs: 60_000 }
    const { open } = this.#shared.feed
    const booking = new OpenBooking(lease, open, { admission, placement, blockTokens, leaseMs })
    const { firstTokenSeen = false, legsDone = [], outputBlocks = 0 } = course
    open.add(Object.assign(booking, { firstTokenSeen, legsDone, outputBlocks }))
    return booking
  }
}
