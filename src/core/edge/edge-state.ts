import { BoundedMap } from '../bounded-map.ts'
import type { Decision } from '../contract/decision.ts'
import type { PoolDigest, PoolSummary } from '../contract/pool-digest.ts'
import { bookingKey } from '../pool/bookings.ts'
import { type IsolateDigest, mergeDigests } from './merge-digests.ts'
import { changedCircuit, circuitFor, type CircuitRecord } from './region-circuit.ts'
import { SharedHistory } from './shared-history.ts'
import {
  type RegionReport,
  type RegionShare,
  type RequestRow,
  SYNC_VERSION,
  type SyncAnswer,
  type SyncBatch,
  type Totals,
} from './sync.ts'
import { isList, sumTotals } from './totals.ts'

/** Silence after which an isolate has no share and no requests in flight, ms. */
const SILENT_MS = 30_000

/** Silence after which the totals of an isolate are added to those of the departed ones, ms. */
const GONE_MS = 600_000

/** Decisions and requests that are kept for views. */
const ROWS_KEPT = 5_000

/** Minimum interval of syncs, ms, per isolate: the object gets at most 400 calls per second. */
const SYNC_MS_PER_ISOLATE = 2.5

/** Sum of all shares of a limit. More than 1, because shares follow the traffic one second late. */
const SHARED_WHOLE = 1.1

/** Last batch of an isolate. */
interface Isolate {
  readonly id: string
  readonly n: number
  readonly startedAt: number
  readonly seenAt: number
  readonly totals: Totals
  readonly regions: readonly RegionReport[]
}

/** Stored state. Decisions and requests are lost with the memory. */
export interface EdgeSnapshot {
  readonly version: number
  readonly startedAt: number | null
  readonly isolates: readonly Isolate[]
  readonly departed: DepartedTotals
  readonly drains: readonly string[]
  readonly circuits: readonly (readonly [string, CircuitRecord])[]
}

/** Totals of isolates that have ended. */
interface DepartedTotals {
  readonly totals: Totals
  readonly regions: readonly Pick<RegionReport, 'cluster' | 'pool' | 'digest'>[]
}

/**
 * State that the isolates of a Worker share: totals, regions, operators' actions, and recent decisions. Each isolate
 * sends the totals since its start, so that batches may be repeated, lost or late.
 */
export class EdgeState {
  readonly #epoch: string
  readonly #isolates = new Map<string, Isolate>()
  readonly #drains = new Set<string>()
  readonly #circuits = new Map<string, CircuitRecord>()
  readonly #decisions = new BoundedMap<string, Decision>(ROWS_KEPT)
  readonly #requests = new BoundedMap<string, RequestRow>(ROWS_KEPT)
  /** By pool. Lost with the memory. */
  readonly #histories = new Map<string, SharedHistory>()
  #departed: DepartedTotals = { totals: null, regions: [] }
  #startedAt: number | null = null
  #seq = 0
  #circuitChanges = 0

  /** @param epoch id of this incarnation */
  constructor(epoch: string) {
    this.#epoch = epoch
  }

  /** Number of recent isolates, and the start of the first one. */
  status(now: number): { readonly isolates: number; readonly startedAt: number | null } {
    return { isolates: this.#live(now).length, startedAt: this.#startedAt }
  }

  /** Number of changes of circuits by isolates. */
  get circuitChanges(): number {
    return this.#circuitChanges
  }

  sync(batch: SyncBatch, now: number): SyncAnswer {
    this.#forget(now)
    const known = this.#isolates.get(batch.isolate)
    if (known === undefined || batch.n > known.n) this.#adopt(batch, known, now)
    for (const decision of batch.decisions) this.#decisions.set(bookingKey(decision), decision)
    for (const row of batch.requests) this.#requests.set(row.record.id, row)
    return this.#answer(batch.isolate, now)
  }

  /** Drains or undrains the gateway of a region in one pool. */
  drain(cluster: string, pool: string, draining: boolean): void {
    const key = keyOf({ cluster, pool })
    if (draining) this.#drains.add(key)
    else this.#drains.delete(key)
  }

  /** Digest of a pool, summed over all isolates. null: no isolate has sent one. */
  digest(cluster: string, pool: string, now: number): PoolDigest | null {
    const own = this.#digestsOf(cluster, pool, now)
    if (own.length === 0) return null
    this.#seq += 1
    const merged = mergeDigests(own)
    const key = keyOf({ cluster, pool })
    const draining = this.#drains.has(key)
    const circuit = this.#circuits.get(key)?.state
    return {
      ...merged,
      seq: this.#seq,
      epoch: this.#epoch,
      at: now,
      engines: merged.engines.map((engine) => ({
        ...engine,
        draining,
        circuit: circuit ?? engine.circuit,
        available: engine.available && !draining && circuit !== 'open',
      })),
    }
  }

  /** @param limit maximum number of decisions */
  summary(
    cluster: string,
    pool: string,
    { limit, historySince, now }: { readonly limit: number; readonly historySince: number; readonly now: number },
  ) {
    const digest = this.digest(cluster, pool, now)
    if (digest === null) return null
    const own = [...this.#decisions]
      .map(([, decision]) => decision)
      .filter((one) => one.cluster === cluster && one.pool === pool)
    const decisions = own.sort((a, b) => b.at - a.at).slice(0, limit)
    const measured = own.filter(({ firstToken, actual }) => Boolean(firstToken ?? actual)).slice(0, limit)
    const history = this.#historyOf({ cluster, pool }).data(historySince)
    const summary: PoolSummary = { digest, decisions, measured, history }
    return summary
  }

  /** Finds a decision by request id (its last attempt) or by booking key. */
  decision(id: string): Decision | null {
    const exact = this.#decisions.get(id)
    if (exact !== undefined) return exact
    let last: Decision | null = null
    for (const [, decision] of this.#decisions)
      if (decision.id === id && (last === null || decision.attempt > last.attempt)) last = decision
    return last
  }

  /** Finds a request by the gateway's id or the client's label. */
  request(id: string): RequestRow | null {
    const exact = this.#requests.get(id)
    if (exact !== undefined) return exact
    let last: RequestRow | null = null
    for (const [, row] of this.#requests) if (row.record.requestId === id) last = row
    return last
  }

  /** Totals of all isolates but one. */
  totals(except: string | null): Totals {
    let sum = this.#departed.totals
    for (const { id, totals } of this.#isolates.values()) if (id !== except) sum = sumTotals(sum, totals)
    return sum
  }

  snapshot(): EdgeSnapshot {
    return {
      version: SYNC_VERSION,
      startedAt: this.#startedAt,
      isolates: [...this.#isolates.values()],
      departed: this.#departed,
      drains: [...this.#drains],
      circuits: [...this.#circuits],
    }
  }

  /** Restores a snapshot into a new state. */
  restore(snapshot: EdgeSnapshot): void {
    if (snapshot.version !== SYNC_VERSION) return
    this.#startedAt = snapshot.startedAt
    this.#departed = snapshot.departed
    for (const isolate of snapshot.isolates) this.#isolates.set(isolate.id, isolate)
    for (const key of snapshot.drains) this.#drains.add(key)
    for (const [key, circuit] of snapshot.circuits) this.#circuits.set(key, circuit)
  }

  #adopt(batch: SyncBatch, known: Isolate | undefined, now: number): void {
    const { isolate, n, startedAt, totals, regions } = batch
    this.#startedAt = Math.min(this.#startedAt ?? Infinity, startedAt)
    for (const report of regions) {
      const key = keyOf(report)
      this.#historyOf(report).adopt(isolate, report.history, now)
      const before = known?.regions.find((one) => keyOf(one) === key)?.changes ?? 0
      if (report.changes <= before) continue
      const circuit = changedCircuit(this.#circuits.get(key) ?? null, report.circuit, { isolate, now })
      if (circuit === null) continue
      this.#circuits.set(key, circuit)
      this.#circuitChanges += 1
    }
    this.#isolates.set(isolate, {
      id: isolate,
      n,
      startedAt,
      seenAt: now,
      totals,
      regions: regions.map(withoutHistory),
    })
  }

  #historyOf(pool: { readonly cluster: string; readonly pool: string }): SharedHistory {
    const key = keyOf(pool)
    const known = this.#histories.get(key) ?? new SharedHistory()
    this.#histories.set(key, known)
    return known
  }

  #answer(isolate: string, now: number): SyncAnswer {
    this.#seq += 1
    const live = this.#live(now)
    const own = this.#isolates.get(isolate)!
    return {
      version: SYNC_VERSION,
      epoch: this.#epoch,
      seq: this.#seq,
      isolates: live.length,
      startedAt: this.#startedAt ?? own.startedAt,
      nextMs: SYNC_MS_PER_ISOLATE * live.length,
      regions: own.regions.map((report) => this.#share(own, report, { live, now })),
    }
  }

  #share(
    own: Isolate,
    { cluster, pool, changes }: RegionReport,
    { live, now }: { readonly live: readonly Isolate[]; readonly now: number },
  ): RegionShare {
    const key = keyOf({ cluster, pool })
    const circuit = this.#circuits.get(key)
    let whole = 0
    let elsewhere = 0
    for (const isolate of live) {
      const report = isolate.regions.find((one) => keyOf(one) === key)
      if (report === undefined) continue
      whole += weightOf(report)
      if (isolate.id !== own.id) elsewhere += report.digest.bookings
    }
    const report = own.regions.find((one) => keyOf(one) === key)!
    const isolates = live.map(({ id }) => id).sort()
    return {
      cluster,
      pool,
      draining: this.#drains.has(key),
      circuit: circuit === undefined ? null : circuitFor(circuit, { isolate: own.id, isolates, now }),
      acknowledged: changes,
      fraction: Math.min(1, (SHARED_WHOLE * weightOf(report)) / Math.max(whole, weightOf(report))),
      elsewhere,
    }
  }

  #live(now: number): Isolate[] {
    return [...this.#isolates.values()].filter(({ seenAt }) => now - seenAt <= SILENT_MS)
  }

  #digestsOf(cluster: string, pool: string, now: number): IsolateDigest[] {
    const isPool = (one: { readonly cluster: string; readonly pool: string }) =>
      one.cluster === cluster && one.pool === pool
    const departed = this.#departed.regions.filter(isPool).map(({ digest }) => ({ digest, isLive: false }))
    const present = [...this.#isolates.values()].flatMap(({ seenAt, regions }) =>
      regions.filter(isPool).map(({ digest }) => ({ digest, isLive: now - seenAt <= SILENT_MS })),
    )
    return [...departed, ...present]
  }

  /** Adds the totals of isolates that ended to one sum. */
  #forget(now: number): void {
    for (const isolate of this.#isolates.values()) {
      if (now - isolate.seenAt <= GONE_MS) continue
      this.#isolates.delete(isolate.id)
      for (const history of this.#histories.values()) history.forget(isolate.id, now)
      const { totals, regions } = this.#departed
      this.#departed = {
        totals: sumTotals(totals, withoutSteps(isolate.totals)),
        regions: isolate.regions.reduce(withDeparted, regions),
      }
    }
  }
}

function withDeparted(
  regions: DepartedTotals['regions'],
  { cluster, pool, digest }: RegionReport,
): DepartedTotals['regions'] {
  const key = keyOf({ cluster, pool })
  const before = regions.filter((one) => keyOf(one) === key)
  const merged = mergeDigests([...before, { digest }].map((one) => ({ digest: one.digest, isLive: false })))
  return [...regions.filter((one) => keyOf(one) !== key), { cluster, pool, digest: merged }]
}

function withoutHistory({ history: _history, ...report }: RegionReport): RegionReport {
  return report
}

/** Totals without the counts of recent steps, whose names would accumulate. */
function withoutSteps(totals: Totals): Totals {
  if (totals === null || typeof totals !== 'object' || isList(totals)) return totals
  const { ended: _, ...kept } = totals as { readonly [key: string]: Totals }
  return kept
}

/** Part of an isolate in the traffic of a pool. An isolate without traffic keeps a small part. */
const weightOf = ({ recent, digest }: RegionReport): number => Math.max(recent, digest.bookings) + 1

/** Neither name can contain a line break. */
const keyOf = ({ cluster, pool }: { readonly cluster: string; readonly pool: string }): string => `${cluster}\n${pool}`
