/** A pool's ledger that publishes its bookings to the other replicas. */
import type { PoolConfig, ReplicaDigest, Resume } from '../../../core/contract/contract.ts'
import type { Admitted, Cluster, Lease } from '../../../ports.ts'
import { type Made, OpenBooking } from './open-bookings.ts'
import type { PoolFeed } from './pool-feed.ts'

export interface Shared {
  readonly feed: PoolFeed
  readonly replicas: () => { readonly replicas: readonly ReplicaDigest[]; readonly replicasUp: boolean }
  /** null: the pool is not configured any more. */
  readonly pool: () => Pick<PoolConfig, 'blockTokens' | 'leaseMs'> | null
}

/** @param ledger of `withAutoConfigure`, whose methods need no `this` */
export function replicatedCluster(ledger: Cluster, { feed, replicas, pool }: Shared): Cluster {
  const leased = (lease: Lease, booking: Pick<Made, 'admission' | 'placement'> & Partial<Resume>) => {
    const { blockTokens, leaseMs } = pool() ?? { blockTokens: 1, leaseMs: 60_000 }
    const made = new OpenBooking(lease, feed.open, { ...booking, blockTokens, leaseMs })
    feed.open.add(made)
    return made
  }
  const published = (admission: Resume['admission'], admitted: Admitted): Admitted =>
    'refusal' in admitted
      ? admitted
      : { ...admitted, lease: leased(admitted.lease, { admission, placement: admitted.placement }) }
  return {
    ...ledger,
    configure(version, next) {
      feed.news.configured(next.engines.map(({ id }) => id))
      return ledger.configure(version, next)
    },
    admit: async (admission) => published(admission, await ledger.admit(admission)),
    admitNow(admission) {
      const admitted = ledger.admitNow?.(admission) ?? null
      return admitted === null ? null : published(admission, admitted)
    },
    wait: async (admission, waitedMs) => published(admission, await ledger.wait!(admission, waitedMs)),
    async resume(booking) {
      const lease = await ledger.resume(booking)
      // A booking that has ended is not booked again, and not published.
      const isBooked = await lease.renew().then(
        () => true,
        () => false,
      )
      return isBooked ? leased(lease, booking) : lease
    },
    observe(signals) {
      for (const signal of signals) feed.news.signalled(signal)
      return ledger.observe(signals)
    },
    registry(call) {
      feed.news.registry(call)
      return ledger.registry!(call)
    },
    digest: async () => ({ ...(await ledger.digest()), ...replicas() }),
    explain: async (id) => (await ledger.explain(id)) ?? feed.explain(id),
    async summary(decisions, historySince = 0) {
      const { digest, ...rest } = await ledger.summary!(decisions, historySince)
      return { ...rest, digest: { ...digest, ...replicas() } }
    },
  }
}
