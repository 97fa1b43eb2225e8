/** A pool's books that tell the other replicas what they book. */
import type { EarlyLegRole } from '../../../core/contract/legs.ts'
import type {
  Admission,
  Decision,
  EngineSignal,
  Outcome,
  PoolConfig,
  Resume,
  StageTimes,
  Usage,
  ReplicaDigest,
} from '../../../core/contract/contract.ts'
import type { KvEventDelta } from '../../../core/kv-events/delta.ts'
import type { RegistryCall } from '../../../core/lmcache/registry-call.ts'
import type { Admitted, Cluster, StoredResponse, StoredResponses, Lease, PoolName } from '../../../ports.ts'
import type { Journal, Made, Open } from './journal.ts'
import type { Course } from './messages.ts'

export interface Shared {
  readonly journal: Journal
  /** The others, as they are now. */
  readonly replicas: () => readonly ReplicaDigest[]
  /** A choice that one of the others made. */
  readonly explainedElsewhere: (pool: PoolName, id: string) => Promise<Decision | null>
  /** The pool as it is configured now. */
  readonly pool: () => Pick<PoolConfig, 'blockTokens' | 'leaseMs'> | null
}

export class ReplicatedCluster implements Cluster {
  readonly #books: Cluster
  readonly #name: PoolName
  readonly #shared: Shared

  constructor(books: Cluster, name: PoolName, shared: Shared) {
    this.#books = books
    this.#name = name
    this.#shared = shared
  }

  configure(version: number, pool: PoolConfig): Promise<void> {
    this.#shared.journal.configured(
      this.#name,
      pool.engines.map(({ id }) => id),
    )
    return this.#books.configure(version, pool)
  }

  async admit(admission: Admission): Promise<Admitted> {
    return this.#told(admission, await this.#books.admit(admission))
  }

  admitNow(admission: Admission): Admitted | null {
    const admitted = this.#books.admitNow?.(admission) ?? null
    return admitted === null ? null : this.#told(admission, admitted)
  }

  async resume(booking: Resume): Promise<Lease> {
    const lease = await this.#books.resume(booking)
    // It may have ended: then they book nothing, and the others have nothing to hear.
    const isBooked = await lease.renew().then(
      () => true,
      () => false,
    )
    return isBooked ? this.#lease(lease, booking, booking) : lease
  }

  rank(admission: Admission) {
    return this.#books.rank(admission)
  }

  async observe(signals: readonly EngineSignal[]): Promise<void> {
    for (const signal of signals) this.#shared.journal.signalled(this.#name, signal)
    await this.#books.observe(signals)
  }

  registry(call: RegistryCall) {
    if (call.kind !== 'list' && call.kind !== 'lookup') this.#shared.journal.reported(this.#name, call)
    return this.#books.registry!(call)
  }

  feed(feeds: readonly KvEventDelta[]) {
    return this.#books.feed!(feeds)
  }

  async digest() {
    return { ...(await this.#books.digest()), replicas: this.#shared.replicas() }
  }

  outlook() {
    return this.#books.outlook()
  }

  async explain(id: string) {
    return (await this.#books.explain(id)) ?? this.#shared.explainedElsewhere(this.#name, id)
  }

  async glance(decisions: number) {
    const { digest, ...rest } = await this.#books.glance!(decisions)
    return { ...rest, digest: { ...digest, replicas: this.#shared.replicas() } }
  }

  #told(admission: Admission, admitted: Admitted): Admitted {
    return 'refusal' in admitted
      ? admitted
      : { ...admitted, lease: this.#lease(admitted.lease, { admission, placement: admitted.placement }) }
  }

  #lease(
    lease: Lease,
    { admission, placement }: Pick<Made, 'admission' | 'placement'>,
    course: Course | null = null,
  ): ToldLease {
    const { blockTokens, leaseMs } = this.#shared.pool() ?? { blockTokens: 0, leaseMs: 60_000 }
    const { journal } = this.#shared
    return new ToldLease(
      lease,
      journal,
      journal.made({ admission, placement, pool: this.#name, blockTokens, leaseMs }, course),
    )
  }
}

class ToldLease implements Lease {
  readonly inProcess: boolean
  readonly #lease: Lease
  readonly #journal: Journal
  readonly #open: Open

  constructor(lease: Lease, journal: Journal, open: Open) {
    this.#lease = lease
    this.#journal = journal
    this.#open = open
    this.inProcess = lease.inProcess ?? false
  }

  legDone(part: EarlyLegRole, stages: StageTimes, usage: Usage | null = null): Promise<void> {
    this.#journal.legDone(this.#open, ['leg_done', this.#open.key, part, stages, usage])
    return this.#lease.legDone!(part, stages, usage)
  }

  firstToken(stages: StageTimes): Promise<void> {
    this.#journal.firstToken(this.#open, ['first_token', this.#open.key, stages])
    return this.#lease.firstToken(stages)
  }

  progress(outputBlocks: number): Promise<void> {
    this.#journal.progress(this.#open, outputBlocks)
    return this.#lease.progress(outputBlocks)
  }

  async renew(): Promise<void> {
    await this.#lease.renew()
    this.#journal.renewed(this.#open)
  }

  release(outcome: Outcome): Promise<void> {
    this.#journal.released(['release', this.#open.key, outcome])
    return this.#lease.release(outcome)
  }
}

/** Who holds which response, known to all replicas: the next call may come to any of them. */
export class ReplicatedHoldings implements StoredResponses {
  readonly #own: StoredResponses
  readonly #journal: Journal

  constructor(own: StoredResponses, journal: Journal) {
    this.#own = own
    this.#journal = journal
  }

  find(id: string, tenant: string) {
    return this.#own.find(id, tenant)
  }

  keep(id: string, holding: StoredResponse): void {
    this.#own.keep(id, holding)
    this.#journal.kept(id, holding)
  }

  forget(id: string): void {
    this.#own.forget(id)
    this.#journal.forgotten(id)
  }
}
