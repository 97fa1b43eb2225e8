import { DurableObject } from 'cloudflare:workers'
import type { ReportPartial } from '../src/core/reports/report-partial.ts'
import type { RecordBatch } from '../src/core/reports/request-record.ts'
import type { AddedReport, StoreLimits } from '../src/core/reports/report-store.ts'
import type { RollupGroup } from '../src/core/reports/rollups.ts'
import { type RequestReport, type SourceMark, TtftState } from '../src/core/reports/ttft-state.ts'
import { ReportJournal } from './report-journal.ts'
import { Alarm } from './alarm.ts'
import { reportRouter } from './report-router.ts'

/** Delay of a write after the first report, milliseconds: losing the last seconds loses reports, not counts. */
const FLUSH_MS = 5_000
const ROLLUP = 'rollup:'
const SOURCE = 'source:'
/** Limits until a gateway sends its own. */
const FIRST_LIMITS: StoreLimits = { maxRequests: 100_000, maxBytes: 33_554_432, ttlMs: 600_000 }

/**
 * Reports and rollups of the requests of one shard: `TtftState` with a wire, a clock and a disk. What a batch adds to
 * the rollups is on disk before the batch is answered; the reports themselves are written every few seconds.
 */
export class TtftObject<Env = Cloudflare.Env> extends DurableObject<Env> {
  readonly #state = new TtftState({ store: FIRST_LIMITS })
  readonly #journal: ReportJournal
  readonly #router: ReturnType<typeof reportRouter>
  readonly #alarm: Alarm

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    this.#alarm = new Alarm(ctx.storage, () => this.now())
    this.#journal = new ReportJournal(ctx.storage)
    this.#router = reportRouter(this)
    this.#restore()
  }

  /** Merges partial reports; returns one result each, in order. */
  async report(partials: readonly ReportPartial[], limits: StoreLimits | null): Promise<AddedReport[]> {
    this.#adopt(limits)
    const now = this.now()
    const added = this.#state.report(partials, now)
    this.#journal.add({ at: now, partials, records: [] })
    this.#wake()
    return added
  }

  async find(id: string): Promise<RequestReport | null> {
    return this.#state.find(id, this.now())
  }

  /** Applies a batch once: a repeated one gets the same response and changes nothing. */
  async flush(batch: RecordBatch, limits: StoreLimits | null): Promise<void> {
    this.#adopt(limits)
    const now = this.now()
    if (!this.#state.flush(batch, now)) return
    this.#journal.add({ at: now, partials: [], records: batch.records })
    // No await before the last write, so that counts and their marker are stored in one transaction.
    this.#saveRollups()
    void this.ctx.storage.put(SOURCE + batch.source, this.#state.mark(batch.source))
    this.#wake()
  }

  /** Stored before the response: a count that an eviction takes back would be added twice. */
  async rollups(): Promise<RollupGroup[]> {
    this.#saveRollups()
    return this.#state.rollups()
  }

  /** Deletes named rollups without an update since `before`, milliseconds since the epoch. */
  async forget(names: readonly string[], before: number): Promise<void> {
    for (const name of this.#state.forget(names, before)) void this.ctx.storage.delete(ROLLUP + name)
  }

  /** Statistics for operators. */
  held(): { readonly requests: number; readonly bytes: number } {
    return this.#state.held
  }

  override fetch(request: Request): Promise<Response> {
    return this.#router.fetch(request) as Promise<Response>
  }

  override async alarm(): Promise<void> {
    this.#alarm.fired()
    this.#saveRollups()
    try {
      const more = await this.#journal.save(this.now())
      // Old segments are deleted at a later alarm.
      if (more) this.#alarm.by(this.now() + this.#journal.lifeMs)
    } catch (error) {
      console.error(JSON.stringify({ event: 'reports_unwritten', object: 'ttft', error: String(error) }))
    }
  }

  protected now(): number {
    return Date.now()
  }

  #adopt(limits: StoreLimits | null): void {
    if (limits === null) return
    this.#state.setLimits(limits)
    this.#journal.lifeMs = limits.ttlMs
  }

  #restore(): void {
    const { kv } = this.ctx.storage
    try {
      const groups = [...kv.list<RollupGroup>({ prefix: ROLLUP })].map(([, group]) => group)
      const sources = [...kv.list<SourceMark>({ prefix: SOURCE })].map(
        ([key, mark]) => [key.slice(SOURCE.length), mark] as const,
      )
      for (const source of this.#state.restore(groups, sources, this.now()))
        void this.ctx.storage.delete(SOURCE + source)
      for (const { at, partials, records } of this.#journal.load()) this.#state.replay(partials, records, at)
    } catch (error) {
      // An unreadable value is ignored.
      console.error(JSON.stringify({ event: 'reports_unreadable', object: 'ttft', error: String(error) }))
    }
  }

  #saveRollups(): void {
    for (const [name, group] of this.#state.takeChanged()) void this.ctx.storage.put(ROLLUP + name, group)
  }

  #wake(): void {
    this.#alarm.by(this.now() + FLUSH_MS)
  }
}
