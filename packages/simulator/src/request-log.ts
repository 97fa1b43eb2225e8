import type { Incoming } from './answer.ts'

/** A request as it arrived, for assertions. */
interface RecordedRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Requests of an engine and their outcomes. */
export class RequestLog {
  /** All requests. */
  requests = 0
  /** Inference requests: POST except operator commands. */
  inference = 0
  /** Inference requests in progress. */
  running = 0
  /** Inference requests whose client disconnected before the end. */
  aborted = 0
  /** Time of the last client disconnect, by the engine's clock. */
  lastAbortAt: number | null = null
  readonly byPath = new Map<string, number>()
  /** Newest last. */
  readonly recent: RecordedRequest[] = []
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

  /** Returns the newest request, optionally of one path. */
  last(path?: string): RecordedRequest | undefined {
    return this.recent.findLast((record) => path === undefined || record.path === path)
  }

  record(incoming: Incoming): void {
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
