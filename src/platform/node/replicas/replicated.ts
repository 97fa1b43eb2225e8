/** A pool's ledger that publishes its bookings to the other replicas. */
import type { EarlyLegRole } from '../../../core/contract/legs.ts'
import type {
  Admission,
  EngineSignal,
  Outcome,
  PoolConfig,
  Resume,
  StageTimes,
  Usage,
  ReplicaDigest,
} from '../../../core/contract/contract.ts'
import type { KvEventDelta } from '../../../core/kv-events/delta-log.ts'
import type { RegistryCall } from '../../../core/lmcache/registry-call.ts'
import type { Admitted, Cluster, Lease } from '../../../ports.ts'
import type { Course } from './messages.ts'
import type { Made, Open, OpenBookings } from './open-bookings.ts'
import type { PoolFeed } from './pool-feed.ts'

export interface Shared {
  readonly feed: PoolFeed
  readonly replicas: () => { readonly replicas: readonly ReplicaDigest[]; readonly isUp: boolean }
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

  async resume(booking: Resume): Promise<Lease> {
    const lease = await this.#ledger.resume(booking)
    // A booking that has ended is not booked again, and not published.
    const isBooked = await lease.renew().then(
      () => true,
      () => false,
    )
    return isBooked ? this.#lease(lease, booking, booking) : lease
  }

  rank(admission: Admission) {
    return this.#ledger.rank(admission)
  }

  async observe(signals: readonly EngineSignal[]): Promise<void> {
    for (const signal of signals) this.#shared.feed.open.signalled(signal)
    await this.#ledger.observe(signals)
  }

  registry(call: RegistryCall) {
    if (call.kind !== 'list' && call.kind !== 'lookup') this.#shared.feed.reported(call)
    return this.#ledger.registry!(call)
  }

  feed(feeds: readonly KvEventDelta[]) {
    return this.#ledger.feed!(feeds)
  }

  async digest() {
    return { ...(await this.#ledger.digest()), ...this.#replicas }
  }

  regionDigest() {
    return this.#ledger.regionDigest()
  }

  async explain(id: string) {
    return (await this.#ledger.explain(id)) ?? this.#shared.feed.explain(id)
  }

  async summary(decisions: number, historySince = 0) {
    const { digest, ...rest } = await this.#ledger.summary!(decisions, historySince)
    return { ...rest, digest: { ...digest, ...this.#replicas } }
  }

  #published(admission: Admission, admitted: Admitted): Admitted {
    return 'refusal' in admitted
      ? admitted
      : { ...admitted, lease: this.#lease(admitted.lease, { admission, placement: admitted.placement }) }
  }

  #lease(
    lease: Lease,
    { admission, placement }: Pick<Made, 'admission' | 'placement'>,
    course: Course | null = null,
  ): PublishedLease {
    const { blockTokens, leaseMs } = this.#shared.pool() ?? { blockTokens: 1, leaseMs: 60_000 }
    const { open } = this.#shared.feed
    return new PublishedLease(lease, open, open.add({ admission, placement, blockTokens, leaseMs }, course))
  }

  get #replicas() {
    const { replicas, isUp } = this.#shared.replicas()
    return { replicas, replicasUp: isUp }
  }
}

class PublishedLease implements Lease {
  readonly inProcess: boolean
  readonly #lease: Lease
  readonly #bookings: OpenBookings
  readonly #open: Open

  constructor(lease: Lease, bookings: OpenBookings, open: Open) {
    this.#lease = lease
    this.#bookings = bookings
    this.#open = open
    this.inProcess = lease.inProcess ?? false
  }

  legDone(part: EarlyLegRole, stages: StageTimes, usage: Usage | null = null): Promise<void> {
    this.#bookings.legDone(this.#open, ['leg_done', this.#open.key, part, stages, usage])
    return this.#lease.legDone!(part, stages, usage)
  }

  firstToken(stages: StageTimes): Promise<void> {
    this.#bookings.firstToken(this.#open, ['first_token', this.#open.key, stages])
    return this.#lease.firstToken(stages)
  }

  progress(outputBlocks: number): Promise<void> {
    this.#bookings.progress(this.#open, outputBlocks)
    return this.#lease.progress(outputBlocks)
  }

  async renew(): Promise<void> {
    await this.#lease.renew()
    this.#bookings.renewed(this.#open)
  }

  release(outcome: Outcome): Promise<void> {
    this.#bookings.released(['release', this.#open.key, outcome])
    return this.#lease.release(outcome)
  }
}
