/** Bounded batch exporter: one batch at a time, in the background. */
import type { Log } from '../ports/log.ts'
import type { RequestScope } from '../ports/request-scope.ts'

interface BatchExporterOptions<Item> {
  /** Name for the log. */
  readonly name: string
  /** Sends a batch. It is repeated with the same number until it succeeds or fails too often. */
  readonly send: (items: readonly Item[], seq: number) => Promise<void>
  /** Maximum wait of an item for a batch, milliseconds. */
  readonly delayMs: number
  readonly now: () => number
  readonly log: Log
}

/** Maximum number of pending items; the oldest are dropped first. */
const MAX_PENDING = 10_000

const MAX_BATCH = 500

/** Timeout of a batch, milliseconds. On Workers a request may end with its batch, so only the time can be awaited. */
const BATCH_TIMEOUT_MS = 10_000

const MAX_TRIES = 5

/** Thrown by `send` for a batch that will never succeed, so it is not repeated. */
export class PermanentExportError extends Error {}

export class BatchExporter<Item> {
  readonly #options: BatchExporterOptions<Item>
  #pending: Item[] = []
  #batch: { readonly items: readonly Item[]; readonly seq: number } | null = null
  #tries = 0
  #seq = 0
  #sendingSince: number | null = null
  #flushBy: number | null = null
  #dropped = 0

  constructor(options: BatchExporterOptions<Item>) {
    this.#options = options
  }

  /** Number of dropped items. */
  get dropped(): number {
    return this.#dropped
  }

  add(item: Item, scope: Pick<RequestScope, 'background'>): void {
    this.#pending.push(item)
    if (this.#pending.length > MAX_PENDING) {
      this.#pending.shift()
      this.#dropped++
    }
    const { now, delayMs } = this.#options
    const at = now()
    if (this.#flushBy !== null && at < this.#flushBy + BATCH_TIMEOUT_MS) return
    this.#flushBy = at + delayMs
    scope.background(this.#flushLater(delayMs))
  }

  /** Sends pending items unless a batch is in flight. Never rejects. */
  async flush(): Promise<void> {
    const { now, log, name, send } = this.#options
    const startedAt = now()
    if (this.#sendingSince !== null && startedAt - this.#sendingSince < BATCH_TIMEOUT_MS) return
    this.#sendingSince = startedAt
    try {
      for (let batch = this.#next(); batch !== null; batch = this.#next()) {
        await send(batch.items, batch.seq)
        if (this.#batch === batch) this.#batch = null
        this.#tries = 0
      }
    } catch (error) {
      this.#tries++
      log.warn('batch_export_failed', { exporter: name, tries: this.#tries, waiting: this.#pending.length, error })
      if (this.#tries >= MAX_TRIES || error instanceof PermanentExportError) this.#giveUp()
    } finally {
      this.#sendingSince = null
    }
  }

  async #flushLater(delayMs: number): Promise<void> {
    // A timer even without delay, so that responses are sent first.
    await new Promise((resolve) => setTimeout(resolve, delayMs))
    this.#flushBy = null
    await this.flush()
  }

  #next() {
    if (this.#batch !== null) return this.#batch
    const items = this.#pending.splice(0, MAX_BATCH)
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
