/** Things on their way out: in batches, one batch at a time, behind the answers; bounded, and never in anybody's way. */
import type { Log, RequestScope } from '../ports.ts'

export interface OutboxOptions<Item> {
  /** For the log. */
  readonly name: string
  /** The same batch comes again, under the same number, until it is taken or was refused too often. */
  readonly send: (items: readonly Item[], seq: number) => Promise<void>
  /** How long an item may wait for company. */
  readonly delayMs: number
  readonly now: () => number
  readonly log: Log
}

/** Items that wait while nobody takes them; the oldest are dropped first. */
const MAX_WAITING = 10_000
const MAX_BATCH = 500
/** On Workers a request may die with the batch it was sending: nobody may wait for its promise, only for its time. */
const LOST_AFTER_MS = 10_000
const MAX_TRIES = 5

/** Thrown by `send`: the batch will never be taken, so it is not sent again. */
export class PermanentExportError extends Error {}

export class BatchExporter<Item> {
  readonly #options: OutboxOptions<Item>
  #waiting: Item[] = []
  #batch: { readonly items: readonly Item[]; readonly seq: number } | null = null
  #tries = 0
  #seq = 0
  #sendingSince: number | null = null
  #flushBy: number | null = null
  #dropped = 0

  constructor(options: OutboxOptions<Item>) {
    this.#options = options
  }

  /** Items that nobody took in time. */
  get dropped(): number {
    return this.#dropped
  }

  add(item: Item, scope: Pick<RequestScope, 'background'>): void {
    this.#waiting.push(item)
    if (this.#waiting.length > MAX_WAITING) {
      this.#waiting.shift()
      this.#dropped++
    }
    const { now, delayMs } = this.#options
    const at = now()
    if (this.#flushBy !== null && at < this.#flushBy + LOST_AFTER_MS) return
    this.#flushBy = at + delayMs
    scope.background(this.#flushLater(delayMs))
  }

  /** Sends what waits, unless somebody is at it. Never rejects. */
  async flush(): Promise<void> {
    const { now, log, name, send } = this.#options
    const startedAt = now()
    if (this.#sendingSince !== null && startedAt - this.#sendingSince < LOST_AFTER_MS) return
    this.#sendingSince = startedAt
    try {
      for (let batch = this.#next(); batch !== null; batch = this.#next()) {
        await send(batch.items, batch.seq)
        if (this.#batch === batch) this.#batch = null
        this.#tries = 0
      }
    } catch (error) {
      this.#tries++
      log.warn('event_batch_stuck', { outbox: name, tries: this.#tries, waiting: this.#waiting.length, error })
      if (this.#tries >= MAX_TRIES || error instanceof PermanentExportError) this.#giveUp()
    } finally {
      this.#sendingSince = null
    }
  }

  async #flushLater(delayMs: number): Promise<void> {
    // A timer even for no delay: an answer goes first.
    await new Promise((resolve) => setTimeout(resolve, delayMs))
    this.#flushBy = null
    await this.flush()
  }

  #next() {
    if (this.#batch !== null) return this.#batch
    const items = this.#waiting.splice(0, MAX_BATCH)
    if (items.length === 0) return null
    this.#batch = { items, seq: ++this.#seq }
    return this.#batch
  }

  #giveUp(): void {
    this.#dropped += this.#batch?.items.length ?? 0
    this.#batch = null
    this.#tries = 0
  }
}
