/** Bounded batch exporter: one batch at a time, in the background, repeated until it is accepted or given up. */
import { Carrier } from '../core/carrier.ts'
import type { RequestScope } from '../ports/request-scope.ts'
import type { Timers } from '../ports/timers.ts'
import { defaultTimers } from '../timers.ts'
import { ExportError } from './export-error.ts'

interface BatchExporterOptions<Item> {
  /** Sends a batch. It is repeated with the same number until it succeeds or fails too often. */
  readonly send: (items: readonly Item[], seq: number) => Promise<void>
  /** Called at each failure. */
  readonly failed: (failure: BatchFailure) => void
  /** Maximum wait of an item for a batch, milliseconds. */
  readonly delayMs: number
  /** Delays before the next tries of a batch, milliseconds. Absent: it is tried again with the next item. */
  readonly retriesMs?: readonly number[]
  readonly limits?: Partial<BatchLimits>
  readonly now: () => number
  readonly timers?: Timers | undefined
}

interface BatchLimits {
  /** Maximum number of pending items; the oldest are dropped first. */
  readonly pending: number
  readonly batch: number
  /** Time after which a batch counts as lost, ms. On Workers a request may end with its batch. */
  readonly lostMs: number
}

/** A batch that was not accepted. */
interface BatchFailure {
  readonly items: number
  readonly tries: number
  /** Items that wait for a later batch. */
  readonly waiting: number
  /** The batch is not tried again. */
  readonly isLast: boolean
  readonly error: unknown
}

const LIMITS: BatchLimits = { pending: 10_000, batch: 500, lostMs: 10_000 }

/** Tries of a batch without `retriesMs`. */
const MAX_TRIES = 5

interface Batch<Item> {
  readonly items: readonly Item[]
  readonly seq: number
}

export class BatchExporter<Item> {
  readonly #options: BatchExporterOptions<Item>
  readonly #limits: BatchLimits
  #pending: Item[] = []
  #batch: Batch<Item> | null = null
  #tries = 0
  #seq = 0
  #sendingSince: number | null = null
  readonly #carrier: Carrier
  #dropped = 0

  constructor(options: BatchExporterOptions<Item>) {
    this.#options = options
    this.#limits = { ...LIMITS, ...options.limits }
    this.#carrier = new Carrier(this.#limits.lostMs)
  }

  /** Number of dropped items. */
  get dropped(): number {
    return this.#dropped
  }

  /** @param scope keeps the work alive. Absent: the platform does */
  add(item: Item, scope?: Pick<RequestScope, 'background'>): void {
    const { pending } = this.#limits
    this.#pending.push(item)
    if (this.#pending.length > pending) {
      this.#pending.shift()
      this.#dropped++
    }
    const { now, delayMs } = this.#options
    const at = now()
    if (!this.#carrier.promises(at + delayMs, at)) return
    const flushed = this.#flushLater(delayMs)
    scope?.background(flushed)
  }

  /** Sends pending items unless a batch is in flight. Never rejects. */
  async flush(): Promise<void> {
    const startedAt = this.#options.now()
    if (this.#sendingSince !== null && startedAt - this.#sendingSince < this.#limits.lostMs) return
    this.#sendingSince = startedAt
    for (let batch = this.#next(); batch !== null; batch = this.#next()) {
      const pauseMs = await this.#deliver(batch)
      if (this.#sendingSince !== startedAt || pauseMs === null) break
      if (pauseMs > 0) await this.#wait(pauseMs)
      if (this.#sendingSince !== startedAt) break
    }
    if (this.#sendingSince === startedAt) this.#sendingSince = null
  }

  /** Returns the pause before the next try or batch, ms. null: the next item brings it. */
  async #deliver(batch: Batch<Item>): Promise<number | null> {
    try {
      await this.#options.send(batch.items, batch.seq)
      if (this.#batch === batch) this.#settle(0)
      return 0
    } catch (error) {
      return this.#batch === batch ? this.#afterFailure(batch, error) : null
    }
  }

  #afterFailure({ items }: Batch<Item>, error: unknown): number | null {
    const { retriesMs, failed } = this.#options
    const tries = ++this.#tries
    const isPermanent = error instanceof ExportError && error.isPermanent
    const isLast = isPermanent || tries >= (retriesMs === undefined ? MAX_TRIES : retriesMs.length + 1)
    failed({ items: items.length, tries, waiting: this.#pending.length, isLast, error })
    if (isLast) this.#settle(items.length)
    if (retriesMs === undefined) return null
    return isLast ? 0 : retriesMs[tries - 1]!
  }

  async #flushLater(delayMs: number): Promise<void> {
    // A timer even without delay, so that responses are sent first.
    await this.#wait(delayMs)
    this.#carrier.sent()
    await this.flush()
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => (this.#options.timers ?? defaultTimers).set(ms, resolve))
  }

  #next(): Batch<Item> | null {
    if (this.#batch !== null) return this.#batch
    const items = this.#pending.splice(0, this.#limits.batch)
    if (items.length === 0) return null
    this.#batch = { items, seq: ++this.#seq }
    return this.#batch
  }

  #settle(dropped: number): void {
    this.#dropped += dropped
    this.#batch = null
    this.#tries = 0
  }
}
