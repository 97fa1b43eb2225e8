/** Connection of one isolate to the object that the isolates of a Worker share. */
import { Carrier } from '../../core/carrier.ts'
import type { HubView } from '../../api/worker-group.ts'
import type { RecentRequest } from '../../core/reports/recent-request.ts'
import type { Decision } from '../../core/contract/decision.ts'
import type { RegionLedger } from '../../core/edge/region-ledger.ts'
import { SYNC_VERSION, type SyncAnswer, type SyncBatch, type Totals } from '../../core/edge/sync.ts'
import { Failure } from '../../failure.ts'
import type { RequestScope } from '../../ports/request-scope.ts'
import { withDeadline } from '../../timeout.ts'
import { EdgeViews, type EdgeViewsParts, VIEW_MS } from './edge-views.ts'

/** Interval of syncs, ms. */
export const SYNC_MS = 1_000
/** Delay of a changed circuit, ms: changes of several requests go in one sync. */
const URGENT_MS = 250
/** Delay after which a promised sync is no longer expected: its request has ended. */
const LATE_MS = 50
/** Time limit of a sync, ms. */
const CALL_MS = 5_000
/** Pause after a failed sync, ms; doubles. */
const PAUSE_MS = 1_000
const MAX_PAUSE_MS = 30_000
/** Pause after an answer of an object that has no `sync`, ms. */
const OLDER_PAUSE_MS = 60_000
/** Longest wait for a sync behind a response, ms. */
const MAX_WAIT_MS = 5_000
/** Age of the shared state from which a request waits for a sync, and its limit, ms. */
const STALE_MS = 5_000
const STALE_WAIT_MS = 50
/** Ended requests that wait for a sync. */
const ROWS_WAITING = 200

interface EdgeClientParts extends EdgeViewsParts {
  readonly newId: () => string
  readonly configVersion: number
  /** Interval of syncs, ms; more if the object asks for it. */
  readonly syncMs: number
}

/**
 * Sends the totals of this isolate behind responses, at most once a second, and applies the answers. Plain data: on
 * Workers no promise may pass from one request to another.
 */
export class EdgeClient extends EdgeViews {
  readonly #parts: EdgeClientParts
  protected readonly ownIsolate: string
  readonly #ownStart = Date.now()
  readonly #ledgers = new Map<string, RegionLedger>()
  /** Syncs that requests have started for themselves. */
  readonly #startedSyncs = new WeakMap<object, Promise<void>>()
  #totals: () => Promise<Totals> = async () => null
  #rows: RecentRequest[] = []
  /** Decisions of a failed sync. */
  #unsent: readonly Decision[] = []
  #n = 0
  #isDirty = false
  #isUrgent = false
  /** Which request syncs. */
  readonly #carrier = new Carrier(LATE_MS)
  #syncedAt = 0
  #nextMs: number
  #pauseUntil = 0
  #failures = 0
  #answer: Pick<SyncAnswer, 'epoch' | 'seq' | 'isolates' | 'startedAt'> | null = null

  constructor(parts: EdgeClientParts) {
    super(parts)
    this.#parts = parts
    this.ownIsolate = parts.newId()
    this.#nextMs = parts.syncMs
  }

  /** Sets the source of the counters. */
  setTotals(totals: () => Promise<Totals>): void {
    this.#totals = totals
  }

  add(cluster: string, pool: string, ledger: RegionLedger): void {
    this.#ledgers.set(JSON.stringify([cluster, pool]), ledger)
  }

  get startedAt(): number {
    return Math.min(this.#ownStart, this.#answer?.startedAt ?? Infinity)
  }

  get view(): HubView {
    return { shared: this.#answer !== null && this.#failures === 0, isolates: this.#answer?.isolates ?? 1 }
  }

  ended(request: RecentRequest, scope: RequestScope): void {
    this.#rows.push(request)
    if (this.#rows.length > ROWS_WAITING) this.#rows.shift()
    this.recordChange(scope)
  }

  /** Records a change, which is sent behind the response of `scope`. */
  recordChange(scope: Pick<RequestScope, 'background'> | undefined, isUrgent = false): void {
    this.#isDirty = true
    if (isUrgent) this.#isUrgent = true
    const carried = this.#carry()
    if (carried !== null) scope?.background(carried)
  }

  /** Starts a sync beside the first request after a pause, so that it does not choose by an old state. */
  syncIfStale(scope: RequestScope): void {
    if (this.#ledgers.size === 0 || Date.now() - this.#syncedAt < STALE_MS || Date.now() < this.#pauseUntil) return
    const sync = this.#sync()
    scope.background(sync)
    this.#startedSyncs.set(scope, sync)
  }

  /** Waits for the sync that `syncIfStale` has started, but not long. */
  async waitForSync(scope: object | undefined): Promise<void> {
    const sync = scope === undefined ? undefined : this.#startedSyncs.get(scope)
    if (sync !== undefined) await Promise.race([sync, scheduler.wait(STALE_WAIT_MS)])
  }

  /** Stored before it resolves. Throws a Failure if the object is unreachable. */
  async drain(cluster: string, pool: string, draining: boolean): Promise<void> {
    try {
      await withDeadline(CALL_MS, this.remote().setDraining(cluster, pool, draining))
    } catch (error) {
      this.#parts.log.error('edge_unreachable', { error })
      throw new Failure('state_unreachable', 'The state that the isolates share cannot be reached. Try again shortly.')
    }
  }

  /** null: another request syncs in time, or the object is away. */
  #carry(): Promise<void> | null {
    const now = Date.now()
    // The first response of a cold isolate would otherwise share the thread with the start of the object.
    const last = this.#syncedAt === 0 ? this.#ownStart : this.#syncedAt
    const due = Math.max(this.#pauseUntil, last + (this.#isUrgent ? Math.min(URGENT_MS, this.#nextMs) : this.#nextMs))
    const waitMs = Math.max(0, due - now)
    if (waitMs > MAX_WAIT_MS || !this.#carrier.promises(now + waitMs, now)) return null
    return this.#syncAfter(waitMs)
  }

  async #syncAfter(waitMs: number): Promise<void> {
    if (waitMs > 0) await scheduler.wait(waitMs)
    this.#carrier.sent()
    if (this.#isDirty) await this.#sync()
  }

  /** Never rejects. */
  async #sync(): Promise<void> {
    try {
      this.#syncedAt = Date.now()
      this.#isDirty = false
      this.#isUrgent = false
      const totals = await this.#totals()
      const batch = this.#batch(totals)
      this.#unsent = batch.decisions.slice(-ROWS_WAITING)
      const answer = await withDeadline(CALL_MS, this.remote().sync(batch))
      const sent = new Set<unknown>(batch.requests)
      this.#rows = this.#rows.filter((row) => !sent.has(row))
      this.#unsent = []
      this.#failures = 0
      this.#pauseUntil = 0
      this.#apply(answer)
    } catch (error) {
      this.failed(error)
    }
  }

  #batch(totals: Totals): SyncBatch {
    const now = Date.now()
    const ledgers = [...this.#ledgers.values()]
    return {
      version: SYNC_VERSION,
      isolate: this.ownIsolate,
      n: (this.#n += 1),
      startedAt: this.#ownStart,
      configVersion: this.#parts.configVersion,
      totals,
      regions: ledgers.map((ledger) => ledger.report(now)),
      decisions: [...this.#unsent, ...ledgers.flatMap((ledger) => ledger.takeDecisions())],
      requests: [...this.#rows],
    }
  }

  #apply(answer: SyncAnswer): void {
    // Answers may overtake each other.
    if (answer.epoch === this.#answer?.epoch && answer.seq < this.#answer.seq) return
    this.#answer = answer
    this.#nextMs = Math.max(this.#parts.syncMs, answer.nextMs)
    const now = Date.now()
    for (const share of answer.regions)
      this.#ledgers.get(JSON.stringify([share.cluster, share.pool]))?.follow(share, now)
  }

  protected failed(error: unknown): void {
    this.#isDirty = true
    const isOlder = String(error).includes('does not implement')
    const pauseMs = isOlder ? OLDER_PAUSE_MS : Math.min(MAX_PAUSE_MS, PAUSE_MS * 2 ** Math.min(5, this.#failures))
    this.#pauseUntil = Date.now() + pauseMs
    // One warning until it answers again.
    if (this.#failures === 0) this.#parts.log.warn('edge_unreachable', { error })
    this.#failures += 1
  }

  /** Syncs, so that a view includes the own requests. */
  protected async refresh(): Promise<void> {
    const isOld = this.#isDirty || this.#answer === null || Date.now() - this.#syncedAt >= this.#nextMs
    if (isOld) await withDeadline(VIEW_MS, this.#sync())
  }
}
