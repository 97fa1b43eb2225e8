import { AutoRouter, error, type IRequest } from 'itty-router'
import type { Decision } from '../src/core/contract/contract.ts'
import { readBatch } from '../src/core/edge/read-batch.ts'
import type { RequestRow, SyncAnswer, SyncBatch } from '../src/core/edge/sync.ts'

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
export class LiveFrames {
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

export interface Shared {
  sync(batch: SyncBatch): Promise<SyncAnswer>
  decision(id: string): Promise<Decision | null>
  request(id: string): Promise<RequestRow | null>
}

/** HTTP of the object by `stub.fetch`; no entry routes clients here. */
export function edgeRouter(object: Shared, frames: LiveFrames) {
  const sync = async (request: IRequest) => {
    try {
      return await object.sync(readBatch(await request.json()))
    } catch (problem) {
      return error(400, { detail: String(problem) })
    }
  }
  const live = (request: IRequest) => {
    if (frames.isFull) return error(429, { detail: `${VIEWERS} viewers watch already`, retry_after_s: RETRY_S })
    return new Response(frames.open(request.headers.get('last-event-id')), {
      headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store, no-transform' },
    })
  }
  return AutoRouter({ missing: () => error(404, 'POST /sync, GET /live, GET /decisions/:id or GET /requests/:id') })
    .post('/sync', (request: IRequest) => sync(request))
    .get('/live', live)
    .get('/decisions/:id', (request: IRequest) => found(object.decision(idOf(request))))
    .get('/requests/:id', (request: IRequest) => found(object.request(idOf(request))))
}

const idOf = ({ params }: IRequest): string => decodeURIComponent(params['id'] ?? '')

async function found(row: Promise<unknown>): Promise<unknown> {
  return (await row) ?? error(404, { detail: 'not found' })
}
