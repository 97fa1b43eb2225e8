import { Failure } from '../failure.ts'
import { dashboardSnapshot, type Watched } from './fleet-view.ts'
import type { RequestContext } from './request-context.ts'

export interface LiveOptions {
  /** A view older than this is taken anew, for all who watch. */
  readonly everyMs?: number
  /** Viewers at once. */
  readonly viewers?: number
  /** A feed ends after this long; its page opens another. */
  readonly lifeMs?: number
  /** Views that one feed may take: on Workers every call of an object counts against its request's limit. */
  readonly takes?: number
}

const EVERY_MS = 1_000
/** Many lines take longer to read, to send and to draw. */
const EVERY_MS_LARGE = 2_000
const LARGE_ENGINES = 64
const VIEWERS = 32
const LIFE_MS = 300_000
const OBJECT_CALLS = 800
/** Whoever asked for a view and never said what came of it: on Workers a request may die with its question. */
const LOST_AFTER_MS = 10_000
const RETRY_MS = 10_000

interface Frame {
  readonly bytes: Uint8Array
  readonly seq: number
}

/** `taken`: by this very question. null: the view is being taken for somebody else. */
type Latest = { readonly frame: Frame; readonly taken: boolean } | null

/**
 * `/v1/firstlight/live`: the fleet as server-sent events. Viewers share views, never promises: whoever finds the last
 * one stale takes the next and the others send it after that, since on Workers no request may wait for another's work.
 */
export class DashboardStream {
  readonly #context: Watched
  readonly #options: Required<LiveOptions>
  readonly #utf8 = new TextEncoder()
  #frame: Frame | null = null
  #takenAt = 0
  #askedAt: number | null = null
  #viewers = 0

  constructor(context: Watched, options: LiveOptions = {}) {
    const { routes } = context.catalog
    const engines = routes.reduce((sum, { pool }) => sum + pool.engines.length, 0)
    this.#context = context
    this.#options = {
      everyMs: engines > LARGE_ENGINES ? EVERY_MS_LARGE : EVERY_MS,
      viewers: VIEWERS,
      lifeMs: LIFE_MS,
      takes: Math.max(10, Math.floor(OBJECT_CALLS / Math.max(1, routes.length))),
      ...options,
    }
  }

  /** Throws a Failure when too many watch already. */
  open(incoming: RequestContext): Response {
    const { viewers, everyMs, lifeMs, takes } = this.#options
    if (this.#viewers >= viewers) {
      throw new Failure('rate_limited', `${viewers} viewers watch this gateway already. Close one of them, or wait.`, {
        retryAfterMs: RETRY_MS,
      })
    }
    const headers = {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store, no-transform',
      // nginx would keep events until a buffer is full.
      'x-accel-buffering': 'no',
      'x-request-id': incoming.requestId,
    }
    if (incoming.request.method === 'HEAD') return new Response(null, { headers })
    this.#viewers++
    const feed = new Feed({
      everyMs,
      lifeMs,
      takes,
      latest: () => this.#latest(),
      isClosing: () => this.#context.draining || this.#context.retired,
      left: () => this.#viewers--,
    })
    // Pulled: who does not read is sent nothing, and nothing piles up for him.
    return new Response(
      new ReadableStream<Uint8Array>(
        { pull: (controller) => feed.pull(controller), cancel: () => feed.cancel() },
        { highWaterMark: 0 },
      ),
      { headers },
    )
  }

  /** The view as it is known; taken anew when it is stale, and nobody else is at it. */
  async #latest(): Promise<Latest> {
    const { ports } = this.#context
    const now = ports.now()
    const isAsked = this.#askedAt !== null && now - this.#askedAt < LOST_AFTER_MS
    const isFresh = this.#frame !== null && now - this.#takenAt < this.#options.everyMs
    // A view from when somebody last watched is no view of now.
    if (isAsked || isFresh)
      return this.#frame === null || now - this.#takenAt > LOST_AFTER_MS ? null : { frame: this.#frame, taken: false }
    this.#askedAt = now
    try {
      const json = JSON.stringify(await dashboardSnapshot(this.#context))
      const seq = (this.#frame?.seq ?? 0) + 1
      this.#frame = { bytes: this.#utf8.encode(`id: ${seq}\nevent: view\ndata: ${json}\n\n`), seq }
      this.#takenAt = ports.now()
      return { frame: this.#frame, taken: true }
    } finally {
      this.#askedAt = null
    }
  }
}

interface FeedParts {
  readonly everyMs: number
  readonly lifeMs: number
  readonly takes: number
  readonly latest: () => Promise<Latest>
  readonly isClosing: () => boolean
  /** Called once, however it ends. */
  readonly left: () => void
}

/** One viewer. */
class Feed {
  readonly #parts: FeedParts
  readonly #life: ReturnType<typeof setTimeout>
  #seen = 0
  #takesLeft: number
  #isOver = false
  #wake: () => void = () => undefined

  constructor(parts: FeedParts) {
    this.#parts = parts
    this.#takesLeft = parts.takes
    this.#life = setTimeout(() => this.#leave(), parts.lifeMs)
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    try {
      const bytes = await this.#next()
      if (bytes !== null) return controller.enqueue(bytes)
      this.#leave()
      controller.close()
    } catch (error) {
      this.#leave()
      throw error
    }
  }

  cancel(): void {
    this.#leave()
  }

  /** null: the feed is over. */
  async #next(): Promise<Uint8Array | null> {
    if (this.#seen > 0) await this.#tick()
    while (!this.#isOver && !this.#parts.isClosing() && this.#takesLeft > 0) {
      const latest = await this.#parts.latest()
      if (latest?.taken) this.#takesLeft--
      if (latest !== null && latest.frame.seq !== this.#seen) {
        this.#seen = latest.frame.seq
        return latest.frame.bytes
      }
      await this.#tick()
    }
    return null
  }

  /** Ends early when the viewer leaves. */
  #tick(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.min(EVERY_MS, this.#parts.everyMs))
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  #leave(): void {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#life)
    this.#parts.left()
    this.#wake()
  }
}
