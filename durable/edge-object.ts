import { DurableObject } from 'cloudflare:workers'
import type { Decision } from '../src/core/contract/decision.ts'
import type { PoolDigest, PoolSummary } from '../src/core/contract/pool-digest.ts'
import { type EdgeSnapshot, EdgeState } from '../src/core/edge/edge-state.ts'
import { readBatch } from '../src/core/edge/read-batch.ts'
import type { RequestRow, SyncAnswer, SyncBatch, Totals } from '../src/core/edge/sync.ts'
import type { IssuedKey, IssuedKeys } from '../src/core/keys/issued-key.ts'
import { Alarm } from './alarm.ts'
import { edgeRouter } from './edge-router.ts'
import { IssuedKeyTable } from './issued-key-table.ts'
import { LiveFrames } from './live-frames.ts'

/** Interval of snapshots, ms. Isolates repeat their totals, so a crash in between loses nothing of live isolates. */
const SAVE_MS = 5_000

const SNAPSHOT = 'edge'

/** What the isolates of a Worker share: `EdgeState` with transport, clock and storage. */
export class EdgeObject<Env = Cloudflare.Env> extends DurableObject<Env> {
  readonly #state = new EdgeState(crypto.randomUUID())
  readonly #router: ReturnType<typeof edgeRouter>
  readonly #alarm: Alarm
  readonly #issuedKeys: IssuedKeyTable
  #savedAt = 0
  #isSaved = true

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    this.#alarm = new Alarm(ctx.storage, () => this.now())
    this.#issuedKeys = new IssuedKeyTable(ctx.storage)
    const frames = new LiveFrames(() => this.view())
    this.#router = edgeRouter(this, frames)
    this.#restore()
  }

  /** Adopts the totals of an isolate and returns the state that all share. */
  async sync(batch: SyncBatch): Promise<SyncAnswer> {
    const now = this.now()
    const { circuitChanges } = this.#state
    const answer = this.#state.sync(readBatch(batch), now)
    if (this.#state.circuitChanges !== circuitChanges || now - this.#savedAt >= SAVE_MS) this.#save(now)
    else this.#saveLater()
    return answer
  }

  /** Saves what came after the last snapshot: without further syncs the object would be evicted with it. */
  override async alarm(): Promise<void> {
    this.#alarm.fired()
    if (!this.#isSaved) this.#save(this.now())
  }

  /** Stored before it resolves: an operator's action must not be lost. */
  async setDraining(cluster: string, pool: string, draining: boolean): Promise<void> {
    this.#state.drain(cluster, pool, draining)
    this.#save(this.now())
    await this.ctx.storage.sync()
  }

  async digest(cluster: string, pool: string): Promise<PoolDigest | null> {
    return this.#state.digest(cluster, pool, this.now())
  }

  async summary(cluster: string, pool: string, decisions: number, historySince = 0): Promise<PoolSummary | null> {
    return this.#state.summary(cluster, pool, { limit: decisions, historySince, now: this.now() })
  }

  async decision(id: string): Promise<Decision | null> {
    return this.#state.decision(id)
  }

  async request(id: string): Promise<RequestRow | null> {
    return this.#state.request(id)
  }

  /** Keys that operators have made at run time. null: the version is still `known`. */
  async readIssuedKeys(known: string | null): Promise<IssuedKeys | null> {
    return this.#issuedKeys.read(known)
  }

  /** false: there is a key with this name. */
  addIssuedKey(key: IssuedKey): Promise<boolean> {
    return this.#issuedKeys.add(key)
  }

  /** false: there is no key with this name. */
  removeIssuedKey(name: string): Promise<boolean> {
    return this.#issuedKeys.remove(name)
  }

  /** State of the connection, for a reader that is no isolate. */
  async status(): Promise<{ readonly isolates: number; readonly startedAt: number | null }> {
    return this.#state.status(this.now())
  }

  /** Totals of all isolates but one. */
  async totals(except: string | null): Promise<Totals> {
    return this.#state.totals(except)
  }

  override fetch(request: Request): Promise<Response> {
    return this.#router.fetch(request) as Promise<Response>
  }

  protected now(): number {
    return Date.now()
  }

  /** View of the fleet for the live feed. The object has no configuration: the entry point overrides this. */
  protected async view(): Promise<unknown> {
    return null
  }

  #saveLater(): void {
    this.#isSaved = false
    this.#alarm.by(this.#savedAt + SAVE_MS)
  }

  #save(now: number): void {
    this.#savedAt = now
    this.#isSaved = true
    this.ctx.storage
      .put(SNAPSHOT, this.#state.snapshot(), { allowUnconfirmed: true })
      .catch((error: unknown) => logError('snapshot_unwritten', error))
  }

  #restore(): void {
    try {
      const snapshot = this.ctx.storage.kv.get<EdgeSnapshot>(SNAPSHOT)
      if (snapshot !== undefined) this.#state.restore(snapshot)
    } catch (error) {
      // An unreadable value is ignored: isolates send their totals again.
      logError('snapshot_unreadable', error)
    }
  }
}

/** An object can only write to the platform's log. */
function logError(event: string, error: unknown): void {
  console.error(JSON.stringify({ event, object: 'edge', error: String(error) }))
}
