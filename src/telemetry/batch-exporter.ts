/** Bounded batch exporter: one batch at a time, in the background. */
import type { Log, RequestScope } from '../ports.ts'

/** W3C Trace Context of a request and of its engine call. https://www.w3.org/TR/trace-context/ */

export interface Trace {
  readonly traceId: string
  /** Span of the client; null: the trace starts here. */
  readonly parentId: string | null
  /** Span of the request at the gateway. */
  readonly spanId: string
  /** Span of the engine call, the parent of the engine's spans. */
  readonly engineSpanId: string
  readonly sampled: boolean
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/** Parses `traceparent`; null: absent or invalid. Later versions are read as version 00. */
export function readTraceparent(
  header: string | null,
): { readonly traceId: string; readonly parentId: string; readonly sampled: boolean } | null {
  const match = TRACEPARENT.exec(header ?? '')
  if (match === null) return null
  const [, version, traceId, parentId, flags, rest] = match
  if (version === 'ff' || (version === '00' && rest !== undefined) || /^0+$/.test(traceId!) || /^0+$/.test(parentId!))
    return null
  return { traceId: traceId!, parentId: parentId!, sampled: (Number.parseInt(flags!, 16) & 1) === 1 }
}

export interface Tracing {
  /** Share of requests to sample where the client has not decided. */
  readonly sample: number
  /** A fresh UUID. */
  readonly newId: () => string
  /** In [0, 1). */
  readonly random: () => number
}

export function beginTrace(header: string | null, { sample, newId, random }: Tracing): Trace {
  const parent = readTraceparent(header)
  return {
    traceId: parent?.traceId ?? hex(newId()),
    parentId: parent?.parentId ?? null,
    spanId: spanIdOf(newId()),
    engineSpanId: spanIdOf(newId()),
    sampled: parent?.sampled ?? random() < sample,
  }
}

/** Headers for the engine. `tracestate` is passed on unless the trace starts here. */
export function withTrace(headers: readonly string[], { traceId, parentId, engineSpanId, sampled }: Trace): string[] {
  const out: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!
    if (name === 'traceparent' || (name === 'tracestate' && parentId === null)) continue
    out.push(name, headers[i + 1]!)
  }
  out.push('traceparent', `00-${traceId}-${engineSpanId}-${sampled ? '01' : '00'}`)
  return out
}

const hex = (uuid: string): string => uuid.replaceAll('-', '')

/** Last digits of a UUID: bits in its middle are constant. */
const spanIdOf = (uuid: string): string => hex(uuid).slice(-16)

export interface OutboxOptions<Item> {
  /** Name for the log. */
  readonly name: string
  /** Sends a batch. It is repeated with the same number until it succeeds or fails too often. */
  readonly send: (items: readonly Item[], seq: number) => Promise<void>
  /** Maximum wait of an item for a batch, milliseconds. */
  readonly delayMs: number
  readonly now: () => number
  readonly log: Log
}

/** Maximum number of pending items; the oldest are dropped first. */
const MAX_WAITING = 10_000
const MAX_BATCH = 500
/** Timeout of a batch, milliseconds. On Workers a request may end with its batch, so only the time can be awaited. */
const LOST_AFTER_MS = 10_000
const MAX_TRIES = 5

/** Thrown by `send` for a batch that will never succeed, so it is not repeated. */
export class PermanentExportError extends Error {}

export class BatchExporter<Item> {
  readonly #options: OutboxOptions<Item>
  #waiting: Item[] = []
  #batch: { readonly items: readonly Item[]; readonly seq: number } | null = null
  #tries = 0
  #seq = 0
  #sendingSince: number | null = null
  #flushBy: number | null = null
  #dropped = 0

  constructor(options: OutboxOptions<Item>) {
    this.#options = options
  }

  /** Number of dropped items. */
  get dropped(): number {
    return this.#dropped
  }

  add(item: Item, scope: Pick<RequestScope, 'background'>): void {
    this.#waiting.push(item)
    if (this.#waiting.length > MAX_WAITING) {
      this.#waiting.shift()
      this.#dropped++
    }
    const { now, delayMs } = this.#options
    const at = now()
    if (this.#flushBy !== null && at < this.#flushBy + LOST_AFTER_MS) return
    this.#flushBy = at + delayMs
    scope.background(this.#flushLater(delayMs))
  }

  /** Sends pending items unless a batch is in flight. Never rejects. */
  async flush(): Promise<void> {
    const { now, log, name, send } = this.#options
    const startedAt = now()
    if (this.#sendingSince !== null && startedAt - this.#sendingSince < LOST_AFTER_MS) return
    this.#sendingSince = startedAt
    try {
      for (let batch = this.#next(); batch !== null; batch = this.#next()) {
        await send(batch.items, batch.seq)
        if (this.#batch === batch) this.#batch = null
        this.#tries = 0
      }
    } catch (error) {
      this.#tries++
      log.warn('event_batch_stuck', { outbox: name, tries: this.#tries, waiting: this.#waiting.length, error })
      if (this.#tries >= MAX_TRIES || error instanceof PermanentExportError) this.#giveUp()
    } finally {
      this.#sendingSince = null
    }
  }

  async #flushLater(delayMs: number): Promise<void> {
    // A timer even without delay, so that responses are sent first.
    await new Promise((resolve) => setTimeout(resolve, delayMs))
    this.#flushBy = null
    await this.flush()
  }

  #next() {
    if (this.#batch !== null) return this.#batch
    const items = this.#waiting.splice(0, MAX_BATCH)
    if (items.length === 0) return null
    this.#batch = { items, seq: ++this.#seq }
    return this.#batch
  }

  #giveUp(): void {
    this.#dropped += this.#batch?.items.length ?? 0
    this.#batch = null
    this.#tries = 0
  }
}
