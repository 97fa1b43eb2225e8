import { DurableObject } from 'cloudflare:workers'
import type { ClusterDigest, ClusterSummary, Decision } from '../src/core/contract/contract.ts'
import { type EdgeSnapshot, EdgeState } from '../src/core/edge/edge-state.ts'
import { type RequestRow, type SyncAnswer, type SyncBatch, type Totals, readBatch } from '../src/core/edge/sync.ts'
import { Alarm } from './storage.ts'
import { AutoRouter, error as errorResponse, type IRequest } from 'itty-router'

/** Interval of snapshots, ms. Isolates repeat their totals, so a crash in between loses nothing of live isolates. */
const SAVE_MS = 5_000
const SNAPSHOT = 'edge'

/** What the isolates of a Worker share: `EdgeState` with transport, clock and storage. */
export class EdgeObject<Env = Cloudflare.Env> extends DurableObject<Env> {
  readonly #state = new EdgeState(crypto.randomUUID())
  readonly #router: ReturnType<typeof edgeRouter>
  readonly #alarm: Alarm
  #savedAt = 0
  #isSaved = true

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    this.#alarm = new Alarm(ctx.storage, () => this.now())
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
    this.#alarm.rang()
    if (!this.#isSaved) this.#save(this.now())
  }

  /** Stored before it resolves: an operator's action must not be lost. */
  async setDraining(cluster: string, pool: string, draining: boolean): Promise<void> {
    this.#state.drain(cluster, pool, draining)
    this.#save(this.now())
    await this.ctx.storage.sync()
  }

  async digest(cluster: string, pool: string): Promise<ClusterDigest | null> {
    return this.#state.digest(cluster, pool, this.now())
  }

  async summary(cluster: string, pool: string, decisions: number, historySince = 0): Promise<ClusterSummary | null> {
    return this.#state.summary(cluster, pool, { limit: decisions, historySince, now: this.now() })
  }

  async decision(id: string): Promise<Decision | null> {
    return this.#state.decision(id)
  }

  async request(id: string): Promise<RequestRow | null> {
    return this.#state.request(id)
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
      .catch((error: unknown) => complain('snapshot_unwritten', error))
  }

  #restore(): void {
    try {
      const snapshot = this.ctx.storage.kv.get<EdgeSnapshot>(SNAPSHOT)
      if (snapshot !== undefined) this.#state.restore(snapshot)
    } catch (error) {
      // An unreadable value is ignored: isolates send their totals again.
      complain('snapshot_unreadable', error)
    }
  }
}

/** An object can only write to the platform's log. */
function complain(event: string, error: unknown): void {
  console.error(JSON.stringify({ event, object: 'edge', error: String(error) }))
}

/* HTTP of the object, with the live feed as a stream. */

/** Interval of views, ms, while somebody watches. */
const VIEW_MS = 1_000
/** Views that a viewer who reconnects may have missed. */
const FRAMES_KEPT = 30
const VIEWERS = 32
const RETRY_S = 10

interface Frame {
  readonly seq: number
  readonly bytes: Uint8Array
}

/** Live feed: all viewers of all isolates get the same events in the same order. */
class LiveFrames {
  readonly #view: () => Promise<unknown>
  readonly #utf8 = new TextEncoder()
  readonly #epoch = crypto.randomUUID().slice(0, 8)
  readonly #frames: Frame[] = []
  #seq = 0
  #takenAt = 0
  #pending: Promise<void> | null = null
  #viewers = 0

  /** @param view takes a view of the fleet */
  constructor(view: () => Promise<unknown>) {
    this.#view = view
  }

  get isFull(): boolean {
    return this.#viewers >= VIEWERS
  }

  /**
   * Opens a feed. A viewer who has the id of an event gets the following ones, or `reset` if they are gone.
   * @param lastId `EPOCH:SEQ` of the last event; null: a new viewer
   */
  open(lastId: string | null): ReadableStream<Uint8Array> {
    const { seen, isLost } = this.#resume(lastId)
    let last = seen
    this.#viewers++
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          if (isLost) controller.enqueue(this.#utf8.encode('event: reset\ndata: {}\n\n'))
        },
        pull: async (controller) => {
          const frame = await this.#after(last)
          last = frame.seq
          controller.enqueue(frame.bytes)
        },
        cancel: () => {
          this.#viewers--
        },
      },
      { highWaterMark: 0 },
    )
  }

  #resume(lastId: string | null): { readonly seen: number; readonly isLost: boolean } {
    const [epoch, seq] = (lastId ?? '').split(':')
    const oldest = this.#frames[0]?.seq ?? this.#seq + 1
    const isKnown = epoch === this.#epoch && Number(seq) >= oldest - 1 && Number(seq) <= this.#seq
    return isKnown
      ? { seen: Number(seq), isLost: false }
      : { seen: Math.max(0, this.#seq - 1), isLost: lastId !== null }
  }

  async #after(seen: number): Promise<Frame> {
    for (;;) {
      const next = this.#frames.find(({ seq }) => seq > seen)
      // A new viewer gets a current view, not one from before a pause.
      if (next !== undefined && (next.seq < this.#seq || Date.now() - this.#takenAt < 2 * VIEW_MS)) return next
      this.#pending ??= this.#take().finally(() => (this.#pending = null))
      await this.#pending
    }
  }

  async #take(): Promise<void> {
    await scheduler.wait(Math.max(0, this.#takenAt + VIEW_MS - Date.now()))
    const json = JSON.stringify(await this.#view())
    this.#takenAt = Date.now()
    this.#seq += 1
    const bytes = this.#utf8.encode(`id: ${this.#epoch}:${this.#seq}\nevent: view\ndata: ${json}\n\n`)
    this.#frames.push({ seq: this.#seq, bytes })
    if (this.#frames.length > FRAMES_KEPT) this.#frames.shift()
  }
}

interface Shared {
  sync(batch: SyncBatch): Promise<SyncAnswer>
  decision(id: string): Promise<Decision | null>
  request(id: string): Promise<RequestRow | null>
}

/** HTTP of the object by `stub.fetch`; no entry routes clients here. */
function edgeRouter(object: Shared, frames: LiveFrames) {
  const sync = async (request: IRequest) => {
    try {
      return await object.sync(readBatch(await request.json()))
    } catch (problem) {
      return errorResponse(400, { detail: String(problem) })
    }
  }
  const live = (request: IRequest) => {
    if (frames.isFull) return errorResponse(429, { detail: `${VIEWERS} viewers watch already`, retry_after_s: RETRY_S })
    return new Response(frames.open(request.headers.get('last-event-id')), {
      headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store, no-transform' },
    })
  }
  return AutoRouter({
    missing: () => errorResponse(404, 'POST /sync, GET /live, GET /decisions/:id or GET /requests/:id'),
  })
    .post('/sync', (request: IRequest) => sync(request))
    .get('/live', live)
    .get('/decisions/:id', (request: IRequest) => found(object.decision(idOf(request))))
    .get('/requests/:id', (request: IRequest) => found(object.request(idOf(request))))
}

const idOf = ({ params }: IRequest): string => decodeURIComponent(params['id'] ?? '')

async function found(row: Promise<unknown>): Promise<unknown> {
  return (await row) ?? errorResponse(404, { detail: 'not found' })
}
