import type { Incoming } from './answer.ts'

/** A request as it arrived, for assertions. */
export interface RecordedRequest {
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

/** Totals of an engine since its start. Names contain the unit. */
export interface EngineCounters {
  steps: number
  submitted: number
  completed: number
  aborted: number
  preemptions: number
  promptTokens: number
  /** Prompt tokens found in the prefix cache. */
  cachedTokens: number
  /** Prompt tokens fetched from another engine or from LMCache. */
  fetchedTokens: number
  outputTokens: number
  encodedItems: number
  /** Held blocks that were released because they were not read in time. */
  lapsedHolds: number
  /** Time spent in steps, ms. */
  busyMs: number
}

export const newCounters = (): EngineCounters => ({
  steps: 0,
  submitted: 0,
  completed: 0,
  aborted: 0,
  preemptions: 0,
  promptTokens: 0,
  cachedTokens: 0,
  fetchedTokens: 0,
  outputTokens: 0,
  encodedItems: 0,
  lapsedHolds: 0,
  busyMs: 0,
})
