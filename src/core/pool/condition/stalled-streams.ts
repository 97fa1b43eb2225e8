import { LinkedList, type ListEntry } from '../../linked-list.ts'

/** Delay, ms, within which output that is later than usual is no sign of a fault. */
const MIN_ERROR_MS = 500

/** Further error of the usual time, as a share of it. */
const ERROR_SHARE = 1

/** Factor on the error for one stream alone: engines hold the arguments of a tool call back until they are parsed. */
const ALONE_FACTOR = 4

/** Streams that are evidence together. */
const SEVERAL = 2

/** Usual output of a stream, when it was reported. */
interface StreamPace {
  /** Usual time until the next report, ms. */
  readonly reportMs: number
  /** Prefill work of the engine so far, s. It delays the output of running streams. */
  readonly prefilledS: number
  /** Now, ms since the epoch. */
  readonly now: number
}

/** A running stream that owes further output. */
export interface RunningStream extends StreamPace, ListEntry<RunningStream> {}

/** Prefill work of the engine. */
interface PrefillWork {
  /** Done so far, s. */
  readonly prefilledS: number
  /** Until when a long prefill may run, ms since the epoch; -Infinity: none waits. */
  readonly longUntil: number
}

/** Returns the error of the usual time until the next report, ms. @testing */
export const stallErrorMs = (reportMs: number): number => MIN_ERROR_MS + ERROR_SHARE * reportMs

/**
 * Running streams of one engine that owe further output. First tokens of other requests are no sign of life here: the
 * bodies of responses may stall alone. A stream that stays silent although the engine answered a trial is no evidence
 * until it moves, so slow readers and held-back tool calls cost one trial each.
 */
export class StalledStreams {
  /** In the order of their last output. Bookings hold them. */
  readonly #running = new LinkedList<RunningStream>()
  /** Overdue streams whose clients have left. */
  #left: StreamPace[] = []
  /** Last output of any stream. */
  #movedAt = -Infinity

  get size(): number {
    return this.#running.size + this.#left.length
  }

  /** A stream has its first token. */
  begun({ reportMs, prefilledS, now }: StreamPace): RunningStream {
    const stream: RunningStream = { reportMs, prefilledS, now, previous: null, next: null, isListed: false }
    this.#running.add(stream)
    return stream
  }

  /** Returns the stream with its new pace, as the last one. null: its pace was not known before. */
  moved(stream: RunningStream | null, pace: StreamPace): RunningStream {
    if (stream !== null) this.#running.delete(stream)
    this.#engineMoved(pace.now)
    return this.begun(pace)
  }

  /** The stream is complete. */
  completed(stream: RunningStream, now: number): void {
    if (this.#running.delete(stream)) this.#engineMoved(now)
  }

  /** The stream ended early. One that is overdue by then stays as evidence until the engine moves. */
  abandoned(stream: RunningStream, now: number, prefill: PrefillWork): void {
    if (!stream.isListed) return
    const isOverdue = now > this.#overdueAt(stream, prefill, this.size === 1)
    this.#running.delete(stream)
    if (isOverdue && this.#left.length < SEVERAL) this.#left.push(stream)
  }

  /** The engine answered a trial: what is silent all the same is no evidence. */
  excuse(now: number): void {
    this.#engineMoved(now)
    for (const stream of this.#running) if (now > stream.now + stream.reportMs) this.#running.delete(stream)
  }

  /** Returns since when several streams, or the only one, have been silent although output is overdue; null: not. */
  overdueSince(now: number, prefill: PrefillWork): number | null {
    const { size } = this
    if (size === 0 || now - this.#movedAt <= MIN_ERROR_MS) return null
    const needed = Math.min(SEVERAL, size)
    let overdue = 0
    let since = -Infinity
    for (const pace of this.#oldestFirst()) {
      const at = this.#overdueAt(pace, prefill, size === 1)
      // All others have moved later.
      if (pace.now + MIN_ERROR_MS > now) return null
      if (now <= at) continue
      since = Math.max(since, at)
      if (++overdue === needed) return since
    }
    return null
  }

  *#oldestFirst(): Iterable<StreamPace> {
    yield* this.#left
    yield* this.#running
  }

  #overdueAt(pace: StreamPace, { prefilledS, longUntil }: PrefillWork, isAlone: boolean): number {
    const delayedMs = 1000 * Math.max(0, prefilledS - pace.prefilledS)
    const errorMs = stallErrorMs(pace.reportMs) * (isAlone ? ALONE_FACTOR : 1)
    return Math.max(Math.max(pace.now + pace.reportMs + delayedMs, this.#movedAt) + errorMs, longUntil)
  }

  #engineMoved(now: number): void {
    this.#movedAt = Math.max(this.#movedAt, now)
    if (this.#left.length > 0) this.#left = []
  }
}
