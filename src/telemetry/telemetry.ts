/** What happens when a request has ended: its record goes to the reports, in batches, behind its answer. */
import type { RecordBatch, RequestRecord } from '../core/reports/record.ts'
import type { Ports, RequestScope } from '../ports.ts'

/** Records that wait while nobody takes them; the oldest are dropped first. */
const MAX_WAITING = 10_000
const MAX_BATCH = 500
/** On Workers a request may die with the batch it was sending. */
const LOST_AFTER_MS = 10_000
const MAX_TRIES = 5

export class Telemetry {
  readonly #ports: Pick<Ports, 'ttft' | 'now' | 'log'>
  readonly #source: string
  readonly #epoch: number
  #waiting: RequestRecord[] = []
  #batch: RecordBatch | null = null
  #tries = 0
  #seq = 0
  #sendingSince: number | null = null
  #flushBy: number | null = null
  #dropped = 0

  /** @param source names this gateway among all that flush to the same place */
  constructor(ports: Pick<Ports, 'ttft' | 'now' | 'log'>, source: string) {
    this.#ports = ports
    this.#source = source
    this.#epoch = ports.now()
  }

  /** Records that nobody took in time. */
  get dropped(): number {
    return this.#dropped
  }

  ended(record: RequestRecord, scope: Pick<RequestScope, 'background'>): void {
    const { ttft } = this.#ports
    if (ttft === undefined) return
    this.#waiting.push(record)
    if (this.#waiting.length > MAX_WAITING) {
      this.#waiting.shift()
      this.#dropped++
    }
    const now = this.#ports.now()
    if (this.#flushBy !== null && now < this.#flushBy + LOST_AFTER_MS) return
    this.#flushBy = now + ttft.batchMs
    scope.background(this.#flushLater(ttft.batchMs))
  }

  /** Sends what waits, unless somebody is at it. Never rejects. */
  async flush(): Promise<void> {
    const { ttft, now, log } = this.#ports
    const startedAt = now()
    if (ttft === undefined || (this.#sendingSince !== null && startedAt - this.#sendingSince < LOST_AFTER_MS)) return
    this.#sendingSince = startedAt
    try {
      for (let batch = this.#next(); batch !== null; batch = this.#next()) {
        await ttft.flush(batch)
        if (this.#batch === batch) this.#batch = null
        this.#tries = 0
      }
    } catch (error) {
      // The same batch under the same number goes again: whoever took it in will not count it twice.
      this.#tries++
      log.warn('reports_unreachable', { tries: this.#tries, error })
      if (this.#tries >= MAX_TRIES) this.#giveUp()
    } finally {
      this.#sendingSince = null
    }
  }

  async #flushLater(delayMs: number): Promise<void> {
    // Even a record that need not wait for company is to be counted after its answer, not before.
    await new Promise((resolve) => setTimeout(resolve, delayMs))
    this.#flushBy = null
    await this.flush()
  }

  #next(): RecordBatch | null {
    if (this.#batch !== null) return this.#batch
    const records = this.#waiting.splice(0, MAX_BATCH)
    if (records.length === 0) return null
    this.#batch = { source: this.#source, epoch: this.#epoch, seq: ++this.#seq, records }
    return this.#batch
  }

  #giveUp(): void {
    this.#dropped += this.#batch?.records.length ?? 0
    this.#batch = null
    this.#tries = 0
  }
}
