import type { Timer } from '../ports/timers.ts'
import { defaultTimers } from '../timers.ts'
import { Failure } from '../failure.ts'
import { dashboardSnapshot, type SnapshotParts } from './dashboard-snapshot.ts'
import type { RequestContext } from './request-context.ts'

/** @testing */
export interface LiveOptions {
  /** Age, ms, after which a snapshot is taken again for all viewers. */
  readonly everyMs?: number
  /** Maximum number of concurrent viewers. */
  readonly viewers?: number
  /** Lifetime, ms, of a feed; its page then opens another. */
  readonly lifeMs?: number
  /** Snapshots that one feed may take. On Workers every call of an object counts against its request's limit. */
  readonly maxSnapshots?: number
}

const EVERY_MS = 1_000

/** Interval for fleets whose snapshots take longer to read, send and draw. */
const EVERY_MS_LARGE = 2_000

const LARGE_ENGINES = 64

const VIEWERS = 32

const LIFE_MS = 300_000

const OBJECT_CALLS = 800

/** Time, ms, after which a snapshot counts as lost. On Workers it may end with the request that started it. */
const LOST_AFTER_MS = 10_000

const RETRY_MS = 10_000

interface Frame {
  readonly bytes: Uint8Array
  readonly seq: number
}

/** `taken`: by this call. null: another viewer's request is taking the snapshot. */
type LatestFrame = { readonly frame: Frame; readonly isNew: boolean } | null

/**
 * `/v1/firstlight/live`: the fleet as server-sent events. Viewers share snapshots, never promises, since on Workers no
 * request may wait for another's work: the viewer who finds a stale snapshot takes the next, and the others send it
 * afterwards.
 */
export class DashboardStream {
  readonly #parts: SnapshotParts
  readonly #options: Required<LiveOptions>
  readonly #utf8 = new TextEncoder()
  #frame: Frame | null = null
  #snapshotAt = 0
  #requestedAt: number | null = null
  #viewers = 0

  constructor(parts: SnapshotParts, options: LiveOptions = {}) {
    const { routes } = parts.models
    const engines = routes.reduce((sum, { pool }) => sum + pool.engines.length, 0)
    this.#parts = parts
    this.#options = {
      everyMs: engines > LARGE_ENGINES ? EVERY_MS_LARGE : EVERY_MS,
      viewers: VIEWERS,
      lifeMs: LIFE_MS,
      maxSnapshots: Math.max(10, Math.floor(OBJECT_CALLS / Math.max(1, routes.length))),
      ...options,
    }
  }

  /**
   * Opens a feed. Throws a Failure if there are too many viewers.
   * @param shared feed of all gateways that serve the address; null: this gateway's
   */
  open(incoming: RequestContext, shared: ReadableStream<Uint8Array> | null = null): Response {
    const { viewers, everyMs, lifeMs, maxSnapshots: takes } = this.#options
    if (this.#viewers >= viewers) {
      throw new Failure(
        'rate_limited',
        `This gateway has ${viewers} dashboard viewers, the maximum. Close one of them, or wait.`,
        {
          retryAfterMs: RETRY_MS,
        },
      )
    }
    const headers = {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store, no-transform',
      // nginx would buffer events.
      'x-accel-buffering': 'no',
      'x-request-id': incoming.requestId,
    }
    if (incoming.request.method === 'HEAD' || shared !== null) return new Response(shared, { headers })
    this.#viewers++
    const feed = new Feed({
      everyMs,
      lifeMs,
      maxSnapshots: takes,
      latest: () => this.#latest(),
      isClosing: () => this.#parts.status.draining || this.#parts.status.retired,
      onClose: () => this.#viewers--,
    })
    // Pull-based: a viewer who does not read gets nothing, and nothing is queued for it.
    return new Response(
      new ReadableStream<Uint8Array>(
        { pull: (controller) => feed.pull(controller), cancel: () => feed.cancel() },
        { highWaterMark: 0 },
      ),
      { headers },
    )
  }

  /** Returns the current snapshot; takes a new one if it is stale and no other viewer does. */
  async #latest(): Promise<LatestFrame> {
    const { ports } = this.#parts
    const now = ports.now()
    const isRequested = this.#requestedAt !== null && now - this.#requestedAt < LOST_AFTER_MS
    const isFresh = this.#frame !== null && now - this.#snapshotAt < this.#options.everyMs
    // A snapshot from before the last pause is too old to send.
    if (isRequested || isFresh)
      return this.#frame === null || now - this.#snapshotAt > LOST_AFTER_MS
        ? null
        : { frame: this.#frame, isNew: false }
    this.#requestedAt = now
    try {
      const json = JSON.stringify(await dashboardSnapshot(this.#parts))
      const seq = (this.#frame?.seq ?? 0) + 1
      this.#frame = { bytes: this.#utf8.encode(`id: ${seq}\nevent: view\ndata: ${json}\n\n`), seq }
      this.#snapshotAt = ports.now()
      return { frame: this.#frame, isNew: true }
    } finally {
      this.#requestedAt = null
    }
  }
}

interface FeedParts {
  readonly everyMs: number
  readonly lifeMs: number
  readonly maxSnapshots: number
  readonly latest: () => Promise<LatestFrame>
  readonly isClosing: () => boolean
  /** Called once at the end. */
  readonly onClose: () => void
}

/** Feed of one viewer. */
class Feed {
  readonly #parts: FeedParts
  readonly #life: Timer
  #sentSeq = 0
  #snapshotsLeft: number
  #isOver = false
  #wake: () => void = () => undefined

  constructor(parts: FeedParts) {
    this.#parts = parts
    this.#snapshotsLeft = parts.maxSnapshots
    this.#life = defaultTimers.set(parts.lifeMs, () => this.#close())
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    try {
      const bytes = await this.#next()
      if (bytes !== null) return controller.enqueue(bytes)
      this.#close()
      controller.close()
    } catch (error) {
      this.#close()
      throw error
    }
  }

  cancel(): void {
    this.#close()
  }

  /** null: the feed ends. */
  async #next(): Promise<Uint8Array | null> {
    if (this.#sentSeq > 0) await this.#tick()
    while (!this.#isOver && !this.#parts.isClosing() && this.#snapshotsLeft > 0) {
      const latest = await this.#parts.latest()
      if (latest?.isNew) this.#snapshotsLeft--
      if (latest !== null && latest.frame.seq !== this.#sentSeq) {
        this.#sentSeq = latest.frame.seq
        return latest.frame.bytes
      }
      await this.#tick()
    }
    return null
  }

  /** Ends early if the viewer disconnects. */
  #tick(): Promise<void> {
    return new Promise((resolve) => {
      const timer = defaultTimers.set(Math.min(EVERY_MS, this.#parts.everyMs), resolve)
      this.#wake = () => {
        timer.cancel()
        resolve()
      }
    })
  }

  #close(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#life.cancel()
    this.#parts.onClose()
    this.#wake()
  }
}
