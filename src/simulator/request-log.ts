import type { Incoming } from './answer.ts'

/** A request as it arrived, for assertions. */
export interface SeenRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** What came to an engine, and what became of it. */
export class RequestLog {
  /** All requests. */
  requests = 0
  /** Requests for work: POST, but for the operator's own. */
  inference = 0
  /** Inference requests not yet answered to the end. */
  running = 0
  /** Inference requests whose client left before the end. */
  aborted = 0
  /** When the last client left, by the engine's clock. */
  lastAbortAt: number | null = null
  readonly byPath = new Map<string, number>()
  /** Newest last. */
  readonly recent: SeenRequest[] = []
  readonly #keep: number
  readonly #now: () => number

  constructor(keep: number, now: () => number) {
    this.#keep = keep
    this.#now = now
  }

  clientLeft(): void {
    this.aborted += 1
    this.lastAbortAt = this.#now()
  }

  /** The newest request on that path, or of all. */
  last(path?: string): SeenRequest | undefined {
    return this.recent.findLast((seen) => path === undefined || seen.path === path)
  }

  seen(incoming: Incoming): void {
    this.requests += 1
    this.byPath.set(incoming.path, (this.byPath.get(incoming.path) ?? 0) + 1)
    if (incoming.method !== 'POST' || this.#keep === 0) return
    if (this.recent.length >= this.#keep) this.recent.shift()
    this.recent.push({
      method: incoming.method,
      path: incoming.path,
      headers: Object.fromEntries(incoming.headers),
      body: incoming.body,
    })
  }
}
