/** A pool whose engines are divided over several state objects (cells), because one object cannot serve its calls. */
import type {
  Admission,
  ClusterDigest,
  ClusterSummary,
  Decision,
  EngineSignal,
  PoolConfig,
  Resume,
} from '../core/contract/contract.ts'
import type { RegionDigest } from '../core/contract/region-digest.ts'
import { mergeDecisions } from '../core/edge/totals.ts'
import type { KvEventDelta, KvEventDeltaState } from '../core/kv-events/delta-log.ts'
import { mergeHistories } from '../core/reports/history.ts'
import { CellChooser, cellOf } from '../core/routing/cells.ts'
import type { Admitted, Cluster, Lease, Ranked, RequestScope } from '../ports.ts'

/** Returns the part of the pool that a cell has. */
export function poolOfCell(pool: PoolConfig, cell: number, shards: number): PoolConfig {
  const ids = pool.engines.map(({ id }) => id)
  return { ...pool, engines: pool.engines.filter(({ id }) => cellOf(id, ids, shards) === cell) }
}

export interface ShardedParts {
  readonly cells: readonly Cluster[]
  /** Ids of the pool's engines, as configured now. */
  readonly engines: () => readonly string[]
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/** Asks the cell of a prompt. A cell that refuses or is unreachable is replaced once by the next. */
export class ShardedCluster implements Cluster {
  readonly #cells: readonly Cluster[]
  readonly #parts: ShardedParts
  readonly #chooser: CellChooser

  constructor(parts: ShardedParts) {
    this.#parts = parts
    this.#cells = parts.cells
    this.#chooser = new CellChooser(parts.cells.length)
  }

  async admit(admission: Admission, scope?: Pick<RequestScope, 'background'>): Promise<Admitted> {
    const [first, second] = this.#order(admission)
    try {
      const admitted = await this.#admitAt(first!, admission, scope)
      if (!('refusal' in admitted) || second === undefined) return admitted
      const other = await this.#admitAt(second, admission, scope).catch(() => admitted)
      return 'refusal' in other ? admitted : other
    } catch (error) {
      if (second === undefined) throw error
      return this.#admitAt(second, admission, scope)
    }
  }

  /** Waits in the cell that has the prompt's cache. */
  wait(admission: Admission, waitedMs: number, scope?: Pick<RequestScope, 'background'>): Promise<Admitted> {
    return this.#cells[this.#order(admission)[0]!]!.wait!(admission, waitedMs, scope)
  }

  async leave(key: string): Promise<void> {
    await this.#all((cluster) => cluster.leave!(key))
  }

  admitLimitMs(): number | null {
    const known = this.#cells.flatMap((cluster) => cluster.admitLimitMs?.() ?? [])
    return known.length < this.#cells.length ? null : Math.max(...known)
  }

  /** Cells configure themselves. */
  async configure(_version: number, _pool: PoolConfig): Promise<void> {}

  resume(booking: Resume, scope?: Pick<RequestScope, 'background'>): Promise<Lease> {
    const { placement } = booking
    return this.#cellOf(placement.kind === 'whole' ? placement.engine : placement.decode).resume(booking, scope)
  }

  rank(admission: Admission): Promise<Ranked> {
    return this.#cells[this.#order(admission)[0]!]!.rank(admission)
  }

  async observe(signals: readonly EngineSignal[]): Promise<readonly string[]> {
    const shared = await Promise.all(
      this.#cells.map(async (cluster) => {
        const own = signals.filter(({ engine }) => this.#cellOf(engine) === cluster)
        return own.length > 0 ? cluster.observe(own) : []
      }),
    )
    return shared.flat()
  }

  async feed(feeds: readonly KvEventDelta[]): Promise<readonly KvEventDeltaState[]> {
    const states: KvEventDeltaState[] = feeds.map(() => 'unknown')
    await Promise.all(
      this.#cells.map(async (cluster) => {
        const own = [...feeds.keys()].filter((at) => this.#cellOf(feeds[at]!.engine) === cluster)
        if (own.length === 0) return
        const answers = (await cluster.feed?.(own.map((at) => feeds[at]!))) ?? []
        for (const [index, at] of own.entries()) states[at] = answers[index] ?? 'unknown'
      }),
    )
    return states
  }

  async digest(): Promise<ClusterDigest> {
    return joined(await this.#all((cluster) => cluster.digest()))
  }

  async regionDigest(): Promise<RegionDigest> {
    return joinedRegion(await this.#all((cluster) => cluster.regionDigest()))
  }

  async explain(id: string): Promise<Decision | null> {
    const found = await Promise.allSettled(this.#cells.map((cluster) => cluster.explain(id)))
    for (const one of found) if (one.status === 'fulfilled' && one.value !== null) return one.value
    return null
  }

  async summary(decisions: number, historySince = 0): Promise<ClusterSummary> {
    const all: readonly ClusterSummary[] = await this.#all(
      async (cluster) =>
        (await cluster.summary?.(decisions, historySince)) ?? { digest: await cluster.digest(), decisions: [] },
    )
    const newest = (lists: readonly Decision[]) => [...lists].sort((a, b) => b.at - a.at).slice(0, decisions)
    return {
      digest: joined(all.map(({ digest }) => digest)),
      decisions: newest(all.flatMap((one) => one.decisions)),
      measured: newest(all.flatMap(({ measured = [] }) => measured)),
      history: mergeHistories(all.flatMap(({ history }) => history ?? [])),
    }
  }

  /** Cells with an engine for the request, in the order in which they are asked. */
  #order(admission: Admission): number[] {
    const engines = this.#parts.engines()
    const avoided = new Set(admission.avoid)
    const usable = new Set(
      engines.flatMap((engine) => (avoided.has(engine) ? [] : [cellOf(engine, engines, this.#cells.length)])),
    )
    const able = usable.size === 0 ? [...this.#cells.keys()] : [...usable]
    return this.#chooser.order(admission, able, this.#parts.now())
  }

  #admitAt(at: number, admission: Admission, scope: Pick<RequestScope, 'background'> | undefined) {
    this.#chooser.sent(at, this.#parts.now())
    return this.#cells[at]!.admit(admission, scope)
  }

  #cellOf(engine: string): Cluster {
    return this.#cells[cellOf(engine, this.#parts.engines(), this.#cells.length)]!
  }

  #all<Answer>(call: (cluster: Cluster) => Promise<Answer>): Promise<Answer[]> {
    return Promise.all(this.#cells.map((cluster) => call(cluster)))
  }
}

function joined(all: readonly ClusterDigest[]): ClusterDigest {
  return {
    ...all[0]!,
    configVersion: Math.min(...all.map(({ configVersion }) => configVersion)),
    seq: sum(all.map(({ seq }) => seq)),
    epoch: all.map(({ epoch }) => epoch).join('+'),
    at: Math.max(...all.map(({ at }) => at)),
    bookings: sum(all.map(({ bookings }) => bookings)),
    ...joinedQueue(all.flatMap(({ queue }) => queue ?? [])),
    engines: all.flatMap(({ engines }) => engines),
    decisions: mergeDecisions(all.flatMap(({ decisions = [] }) => decisions)),
  }
}

function joinedQueue(queues: readonly NonNullable<ClusterDigest['queue']>[]): Pick<ClusterDigest, 'queue'> {
  if (queues.length === 0) return {}
  const oldestMs = Math.max(...queues.map((queue) => queue.oldestMs))
  return { queue: { requests: sum(queues.map(({ requests }) => requests)), oldestMs } }
}

function joinedRegion(all: readonly RegionDigest[]): RegionDigest {
  const able = all.filter(({ soonest }) => soonest !== null)
  const engines = sum(all.map((one) => one.engines))
  const byWait = (of: 'soonest' | 'usual') => able.map((one) => one[of]!).sort((a, b) => a.waitS - b.waitS)
  const usual = byWait('usual')
  return {
    ...all[0]!,
    configVersion: Math.min(...all.map(({ configVersion }) => configVersion)),
    engines,
    requests: sum(all.map(({ requests }) => requests)),
    queued: engines === 0 ? 0 : sum(all.map((one) => one.queued * one.engines)) / engines,
    confidence: Math.max(...all.map(({ confidence }) => confidence)),
    soonest: byWait('soonest')[0] ?? null,
    usual: usual[usual.length >> 1] ?? null,
    // Filters of different sizes cannot be joined.
    prefixes: all.reduce((a, b) => (b.prefixes.length > a.prefixes.length ? b : a)).prefixes,
  }
}

const sum = (all: readonly number[]): number => all.reduce((total, one) => total + one, 0)
