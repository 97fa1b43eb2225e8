/** A pool whose engines are divided over several state objects (cells), because one object cannot serve its calls. */
import type { Admission } from '../../core/contract/admission.ts'
import type { PoolDigest, PoolSummary } from '../../core/contract/pool-digest.ts'
import type { Decision } from '../../core/contract/decision.ts'
import type { EngineSignal } from '../../core/contract/engine-signal.ts'
import type { PoolConfig } from '../../core/contract/pool-config.ts'
import { serverIdOf } from '../../core/contract/rank-id.ts'
import type { Resume } from '../../core/contract/resume.ts'
import type { RegionDigest } from '../../core/contract/region-digest.ts'
import type { CostAnswer } from '../../core/cost/request-cost.ts'
import { mergeCapacities, mergeCapacityErrors } from '../../core/capacity/merge-capacities.ts'
import { mergeDecisions } from '../../core/edge/merge-digests.ts'
import type { KvEventDelta, KvEventDeltaState } from '../../core/kv-events/event-delta.ts'
import { mergeHistories } from '../../core/reports/merge-histories.ts'
import { CellChooser, cellOf } from '../../core/routing/cells.ts'
import type {
  AdmitResult,
  KvEventFeed,
  PoolCosts,
  PoolDecisions,
  PoolOverview,
  PoolPort,
  PoolQueue,
  RegionDigestSource,
  RemoteState,
} from '../../ports/pool.ts'
import type { Lease } from '../../ports/lease.ts'
import type { RequestScope } from '../../ports/request-scope.ts'

/** Returns the part of the pool that a cell has. */
export function poolOfCell(pool: PoolConfig, cell: number, shards: number): PoolConfig {
  const ids = pool.engines.map(({ id }) => id)
  return { ...pool, engines: pool.engines.filter(({ id }) => cellOf(id, ids, shards) === cell) }
}

interface ShardedPoolParts {
  readonly cells: readonly PoolPort[]
  /** Ids of the pool's engines, as configured now. */
  readonly engines: () => readonly string[]
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/** Asks the cell of a prompt. A cell that refuses or is unreachable is replaced once by the next. */
export class ShardedPool implements PoolPort {
  readonly #cells: readonly PoolPort[]
  readonly #parts: ShardedPoolParts
  readonly #chooser: CellChooser
  readonly remote: RemoteState
  /** Requests wait in the cell that has the prompt's cache. */
  readonly queue: PoolQueue
  readonly kvEvents: KvEventFeed
  readonly decisions: PoolDecisions
  readonly overview: PoolOverview
  readonly costs: PoolCosts
  readonly region: RegionDigestSource

  constructor(parts: ShardedPoolParts) {
    this.#parts = parts
    this.#cells = parts.cells
    this.#chooser = new CellChooser(parts.cells.length)
    this.remote = { admitLimitMs: () => this.#admitLimitMs() }
    this.queue = {
      wait: (admission, waitedMs, scope) => this.#first(admission).queue!.wait(admission, waitedMs, scope),
      leave: async (key) => void (await this.#all((cell) => cell.queue!.leave(key))),
    }
    this.kvEvents = { feed: (feeds) => this.#feed(feeds) }
    this.decisions = {
      dryRun: (admission) => this.#first(admission).decisions!.dryRun(admission),
      explain: (id) => this.#explain(id),
    }
    this.overview = { summary: (decisions, historySince) => this.#summary(decisions, historySince) }
    this.costs = { costOf: (key) => this.#costOf(key) }
    this.region = { digest: async () => mergeRegionDigests(await this.#all((cell) => cell.region!.digest())) }
  }

  #first(admission: Admission): PoolPort {
    return this.#cells[this.#order(admission)[0]!]!
  }

  #admitLimitMs(): number | null {
    const known = this.#cells.flatMap((cell) => cell.remote?.admitLimitMs() ?? [])
    return known.length < this.#cells.length ? null : Math.max(...known)
  }

  async admit(admission: Admission, scope?: Pick<RequestScope, 'background'>): Promise<AdmitResult> {
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

  /** Cells configure themselves. */
  async configure(_version: number, _pool: PoolConfig): Promise<void> {}

  resume(booking: Resume, scope?: Pick<RequestScope, 'background'>): Promise<Lease> {
    const { placement } = booking
    return this.#cellOf(placement.kind === 'whole' ? placement.engine : placement.decode).resume(booking, scope)
  }

  async observe(signals: readonly EngineSignal[]): Promise<readonly string[]> {
    const shared = await Promise.all(
      this.#cells.map(async (cell) => {
        const own = signals.filter(({ engine }) => this.#cellOf(engine) === cell)
        return own.length > 0 ? cell.observe(own) : []
      }),
    )
    return shared.flat()
  }

  async #feed(feeds: readonly KvEventDelta[]): Promise<readonly KvEventDeltaState[]> {
    const states: KvEventDeltaState[] = feeds.map(() => 'unknown')
    await Promise.all(
      this.#cells.map(async (cell) => {
        const own = [...feeds.keys()].filter((at) => this.#cellOf(feeds[at]!.engine) === cell)
        if (own.length === 0) return
        const answers = (await cell.kvEvents?.feed(own.map((at) => feeds[at]!))) ?? []
        for (const [index, at] of own.entries()) states[at] = answers[index] ?? 'unknown'
      }),
    )
    return states
  }

  async digest(): Promise<PoolDigest> {
    return mergeDigests(await this.#all((cell) => cell.digest()))
  }

  async #costOf(key: string): Promise<CostAnswer> {
    const answers = await this.#all(async (cell) => cell.costs?.costOf(key) ?? null)
    return answers.find((answer) => answer !== null) ?? null
  }

  async #explain(id: string): Promise<Decision | null> {
    const results = await Promise.allSettled(this.#cells.map(async (cell) => cell.decisions?.explain(id) ?? null))
    for (const one of results) if (one.status === 'fulfilled' && one.value !== null) return one.value
    return null
  }

  async #summary(decisions: number, historySince = 0): Promise<PoolSummary> {
    const all: readonly PoolSummary[] = await this.#all(
      async (cell) =>
        (await cell.overview?.summary(decisions, historySince)) ?? { digest: await cell.digest(), decisions: [] },
    )
    const newest = (lists: readonly Decision[]) => [...lists].sort((a, b) => b.at - a.at).slice(0, decisions)
    return {
      digest: mergeDigests(all.map(({ digest }) => digest)),
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
    const eligible = usable.size === 0 ? [...this.#cells.keys()] : [...usable]
    return this.#chooser.order(admission, eligible, this.#parts.now())
  }

  #admitAt(at: number, admission: Admission, scope: Pick<RequestScope, 'background'> | undefined) {
    this.#chooser.recordSent(at, this.#parts.now())
    return this.#cells[at]!.admit(admission, scope)
  }

  #cellOf(engine: string): PoolPort {
    return this.#cells[cellOf(serverIdOf(engine), this.#parts.engines(), this.#cells.length)]!
  }

  #all<Answer>(call: (cell: PoolPort) => Promise<Answer>): Promise<Answer[]> {
    return Promise.all(this.#cells.map((cell) => call(cell)))
  }
}

function mergeDigests(all: readonly PoolDigest[]): PoolDigest {
  return {
    ...all[0]!,
    configVersion: Math.min(...all.map(({ configVersion }) => configVersion)),
    seq: sum(all.map(({ seq }) => seq)),
    epoch: all.map(({ epoch }) => epoch).join('+'),
    at: Math.max(...all.map(({ at }) => at)),
    bookings: sum(all.map(({ bookings }) => bookings)),
    ...mergeQueues(all.flatMap(({ queue }) => queue ?? [])),
    ...(all.some(({ capacity }) => capacity !== undefined)
      ? { capacity: mergeCapacities(all.flatMap(({ capacity }) => (capacity === undefined ? [] : [capacity]))) }
      : {}),
    ...capacityErrorOf(all),
    engines: all.flatMap(({ engines }) => engines),
    decisions: mergeDecisions(all.flatMap(({ decisions = [] }) => decisions)),
  }
}

function capacityErrorOf(all: readonly PoolDigest[]): Pick<PoolDigest, 'capacityError'> {
  const capacityError = mergeCapacityErrors(all.flatMap((digest) => digest.capacityError ?? []))
  return capacityError === null ? {} : { capacityError }
}

function mergeQueues(queues: readonly NonNullable<PoolDigest['queue']>[]): Pick<PoolDigest, 'queue'> {
  if (queues.length === 0) return {}
  const oldestMs = Math.max(...queues.map((queue) => queue.oldestMs))
  return { queue: { requests: sum(queues.map(({ requests }) => requests)), oldestMs } }
}

function mergeRegionDigests(all: readonly RegionDigest[]): RegionDigest {
  const available = all.filter(({ soonest }) => soonest !== null)
  const engines = sum(all.map((one) => one.engines))
  const byWait = (of: 'soonest' | 'usual') => available.map((one) => one[of]!).sort((a, b) => a.waitS - b.waitS)
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
