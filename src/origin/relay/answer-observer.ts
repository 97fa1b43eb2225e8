/** Reads a response's bytes as they pass: events, usage, errors, the end. Can remove the usage event. */
import { AnswerReader } from '../../protocols/answer.ts'
import type { EngineError } from '../../protocols/engine-error.ts'
import type { Protocol } from '../../protocols/protocol.ts'
import type { ReportedUsage } from '../../protocols/reported-usage.ts'
import { EventBoundaries } from '../../protocols/stream/boundaries.ts'
import type { StreamOutcome } from '../../protocols/stream/event.ts'
import { OPAQUE } from '../../protocols/stream/opaque.ts'
import { StreamReader } from '../../protocols/stream/reader.ts'
import type { AnswerStart } from './answer-start.ts'
import { isOneEvent } from './is-one-event.ts'

/** Limit, bytes, of an incomplete event that is held back. A longer one is no usage event and passes at once. */
const HELD_BYTES = 64 * 1024

/** What became of a whole event. `unread`: it is something else, `take` it. */
export type WholeEvent = 'passed' | 'removed' | 'unread'

export interface AnswerObserver {
  /** Data events that were emitted so far, with that of the end. */
  readonly events: number
  /** Events with text of the output. */
  readonly outputs: number
  /** Nothing but comments and openings came. Always false for a body that is no stream. */
  readonly isWaiting: boolean
  /** First error that the engine reported. null: none. */
  readonly error: EngineError | null
  /** The last event of the protocol was read. Always false for a body that is no stream. */
  readonly hasEnded: boolean
  /** The emitted bytes end at the end of an event. */
  readonly atBoundary: boolean
  /** Bytes held back. While it is not 0, the observer references memory of the chunks it took. */
  readonly heldBytes: number
  /** Number of the next event, for an error event of the gateway. null: the protocol has none. */
  readonly nextSequence: number | null
  take(chunk: Uint8Array, emit: (piece: Uint8Array) => void): void
  /** Reads a range that is exactly one event, without a copy. */
  takesWhole(bytes: Uint8Array, from: number, to: number): WholeEvent
  /** Emits what was held back at the end of the body. */
  end(emit: (piece: Uint8Array) => void): void
  /** How the body ended. Call it after `end`. */
  outcome(): StreamOutcome
  usage(): ReportedUsage | null
}

interface ObservedAnswer {
  /** The body is a stream of server-sent events. */
  readonly sse: boolean
  readonly protocol: Protocol
  /** The body has a `content-encoding`: nothing in it can be read or removed. */
  readonly isEncoded: boolean
  readonly hidesUsage: boolean
  /** Reader of the bytes before. null: there are none, or they are read again. */
  readonly reader: StreamReader | null
  /** Beginning of the answer. null: nothing was read. */
  readonly start: AnswerStart | null
}

export function observeAnswer(answer: ObservedAnswer): AnswerObserver {
  const { sse, protocol, isEncoded, hidesUsage, reader, start } = answer
  if (isEncoded) return new BodyObserver(null)
  if (!sse) return new BodyObserver(start?.answerReader(protocol) ?? new AnswerReader(protocol.usage))
  const used = reader ?? new StreamReader(protocol.stream ?? OPAQUE)
  return hidesUsage ? new UsageRemover(used) : new StreamObserver(used)
}

/** A body that is no event stream, or one that cannot be read. */
class BodyObserver implements AnswerObserver {
  readonly events = 0
  readonly outputs = 0
  readonly isWaiting = false
  readonly error = null
  readonly hasEnded = false
  readonly atBoundary = false
  readonly heldBytes = 0
  readonly nextSequence = null
  readonly #reader: AnswerReader | null

  constructor(reader: AnswerReader | null) {
    this.#reader = reader
  }

  take(chunk: Uint8Array, emit: (piece: Uint8Array) => void): void {
    this.#reader?.take(chunk)
    emit(chunk)
  }

  takesWhole(): WholeEvent {
    return 'unread'
  }

  end(): void {
    // This observer holds nothing back.
  }

  outcome(): StreamOutcome {
    return 'complete'
  }

  usage(): ReportedUsage | null {
    return this.#reader?.usage ?? null
  }
}

/** A stream that passes unchanged. */
class StreamObserver implements AnswerObserver {
  protected readonly reader: StreamReader

  constructor(reader: StreamReader) {
    this.reader = reader
  }

  get heldBytes(): number {
    return 0
  }

  get events(): number {
    return this.reader.events
  }

  get outputs(): number {
    return this.reader.outputs
  }

  get isWaiting(): boolean {
    return this.reader.isWaiting
  }

  get error(): EngineError | null {
    return this.reader.error
  }

  get hasEnded(): boolean {
    return this.reader.hasEnded
  }

  get atBoundary(): boolean {
    return this.reader.atBoundary
  }

  get nextSequence(): number | null {
    return this.reader.nextSequence
  }

  take(chunk: Uint8Array, emit: (piece: Uint8Array) => void): void {
    this.reader.take(chunk)
    emit(chunk)
  }

  takesWhole(bytes: Uint8Array, from: number, to: number): WholeEvent {
    if (!this.reader.isBetween || !isOneEvent(bytes, from, to)) return 'unread'
    this.reader.event(bytes, from, to)
    return 'passed'
  }

  end(_emit: (piece: Uint8Array) => void): void {
    // This observer holds nothing back.
  }

  outcome(): StreamOutcome {
    return this.reader.outcome()
  }

  usage(): ReportedUsage | null {
    return this.reader.usage
  }
}

/** Passes whole events except the usage event. An incomplete event waits for its end. */
class UsageRemover extends StreamObserver {
  readonly #boundaries = new EventBoundaries()
  #held: Uint8Array[] = []
  #heldBytes = 0
  #removed = 0
  /** Part of the current event was emitted, so the rest must be too. */
  #isPassing = false
  /** The reader has a part of the current event. */
  #isPart = false

  override get events(): number {
    return this.reader.events - this.#removed
  }

  override get heldBytes(): number {
    return this.#heldBytes
  }

  override get atBoundary(): boolean {
    return !this.#isPassing
  }

  override take(chunk: Uint8Array, emit: (piece: Uint8Array) => void): void {
    let emitted = 0
    let at = 0
    while (at < chunk.length) {
      const end = this.#boundaries.next(chunk, at, chunk.length)
      if (end < 0) break
      const isUsage = this.#event(chunk, at, end) === 'usage' && !this.#isPassing
      if (isUsage) {
        this.#removed++
        if (at > emitted) emit(chunk.subarray(emitted, at))
        emitted = end
        this.#forget()
      } else this.#release(emit)
      this.#isPassing = false
      at = end
    }
    if (at > emitted) emit(chunk.subarray(emitted, at))
    if (at === chunk.length) return
    this.reader.part(chunk, at, chunk.length, false)
    this.#isPart = true
    // A comment line is no part of an event, and a heartbeat must not wait.
    if (this.#boundaries.atBoundary && !this.#isPassing) {
      this.#release(emit)
      emit(chunk.subarray(at))
    } else this.#hold(chunk.subarray(at), emit)
  }

  override takesWhole(bytes: Uint8Array, from: number, to: number): WholeEvent {
    if (this.#isPart || !this.#boundaries.atBoundary || !isOneEvent(bytes, from, to)) return 'unread'
    if (this.reader.event(bytes, from, to) !== 'usage') return 'passed'
    this.#removed++
    return 'removed'
  }

  override end(emit: (piece: Uint8Array) => void): void {
    this.#release(emit)
  }

  #event(chunk: Uint8Array, from: number, end: number): string | null {
    if (!this.#isPart) return this.reader.event(chunk, from, end)
    this.#isPart = false
    return this.reader.part(chunk, from, end, true)
  }

  #hold(piece: Uint8Array, emit: (piece: Uint8Array) => void): void {
    if (this.#isPassing) return emit(piece)
    this.#held.push(piece)
    this.#heldBytes += piece.length
    if (this.#heldBytes <= HELD_BYTES) return
    this.#release(emit)
    this.#isPassing = true
  }

  #release(emit: (piece: Uint8Array) => void): void {
    for (const piece of this.#held) emit(piece)
    this.#forget()
  }

  #forget(): void {
    this.#held = []
    this.#heldBytes = 0
  }
}
