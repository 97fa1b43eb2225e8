import type { AttemptFailure } from '../../core/contract/outcome.ts'
import { OriginError } from '../../ports/origin.ts'
import { completeUsage } from '../../protocols/reported-usage.ts'
import type { StreamOutcome } from '../../protocols/stream/event.ts'
import type { RelayOptions, RelayResult } from '../../ports/relay.ts'
import { Patience } from '../patience.ts'
import type { AnswerStart } from './answer-start.ts'
import { ResponseIdFinder } from './response-id-finder.ts'
import { observeAnswer, type AnswerObserver, type WholeEvent } from './answer-observer.ts'

/** @testing */
export interface RelayTraits {
  /** The body is a stream of server-sent events. */
  readonly sse: boolean
  /** The observer reads the body. false: bytes pass unread. */
  readonly reads: boolean
  /** The usage record is removed: the gateway requested it, and the mover can change the body. */
  readonly hidesUsage: boolean
  /** The beginning of the body, which was read to judge the answer. null: nothing was read. */
  readonly start: AnswerStart | null
  /** Time that a timer leaves to read what has arrived, ms; 0: it fires after sockets have been read. Absent: 20. */
  readonly readMs?: number
}

/**
 * State of one relay: start, heartbeat and idle timeout, usage stripping, truncation and end. It has no timer and moves
 * no bytes. The mover passes the time (ms, monotonic) and calls `check` when `checkInMs` have passed.
 */
export class RelayController {
  readonly observer: AnswerObserver
  readonly #options: RelayOptions
  readonly #traits: RelayTraits
  readonly #idFinder: ResponseIdFinder | null
  /** Reads the beginning of a body that the observer does not read. null: there is none, or output has begun. */
  #prelude: AnswerObserver | null
  /** Bytes still to come that were read already, with the beginning of the body. */
  #readBytes: number
  #outcome: StreamOutcome = 'complete'
  #started = false
  #settled = false
  #bytes = 0
  /** Number of events at which they are reported next. */
  #reportAt: number
  #idleSince = 0
  #heartbeatAt = 0
  /** A limit of silence has passed, but this process was late. null: none has passed. */
  #patience: Patience | null = null
  #extendedUntil = 0

  constructor(options: RelayOptions, traits: RelayTraits) {
    this.#options = options
    this.#reportAt = options.firstEvents > 0 ? options.firstEvents : Infinity
    this.#traits = traits
    const { protocol, isEncoded = false } = options
    const { sse, reads, hidesUsage, start } = traits
    const reader = start?.readerFor(protocol, reads && hidesUsage) ?? null
    this.#readBytes = reader === null ? 0 : start!.bytes
    const observed = { sse, protocol, isEncoded, start, hidesUsage, reader }
    this.observer = observeAnswer(reads ? observed : { ...observed, reader: null })
    this.#prelude = reads ? null : observeAnswer({ ...observed, hidesUsage: false })
    this.#idFinder = ResponseIdFinder.for(options.onResponseId)
  }

  /** The end was reported. */
  get settled(): boolean {
    return this.#settled
  }

  /** A heartbeat may be sent now: the client gets heartbeats, and no event is incomplete. */
  get canBeat(): boolean {
    return this.#heartbeatMs > 0 && this.#atBoundary
  }

  /** The emitted bytes end at the end of an event. Inside the bytes that were read before, this is unknown. */
  get #atBoundary(): boolean {
    return this.#readBytes === 0 || !this.#traits.reads ? this.observer.atBoundary : this.#bytes === 0
  }

  /** Reads bytes of the engine. `emit` gets those that go to the client. */
  take(payload: Uint8Array, emit: (piece: Uint8Array) => void): void {
    if (this.#traits.reads) this.#read(payload, emit)
    else emit(payload)
    this.#count(payload, 0, payload.length)
  }

  #read(payload: Uint8Array, emit: (piece: Uint8Array) => void): void {
    const from = this.#skipRead(0, payload.length)
    if (from > 0) emit(from === payload.length ? payload : payload.subarray(0, from))
    if (from < payload.length) this.observer.take(from === 0 ? payload : payload.subarray(from), emit)
  }

  /** First byte of the range that was not read before. */
  #skipRead(from: number, to: number): number {
    if (this.#readBytes === 0) return from
    const bytes = Math.min(this.#readBytes, to - from)
    this.#readBytes -= bytes
    return from + bytes
  }

  /** Reads a range that is one whole event. `unread`: it is something else, or must be held back; `take` it. */
  takeWhole(bytes: Uint8Array, from: number, to: number): WholeEvent {
    if (!this.#traits.reads) return 'unread'
    const result = this.#readBytes === 0 ? this.observer.takesWhole(bytes, from, to) : this.#takeRead(from, to)
    if (result !== 'unread') this.#count(bytes, from, to)
    return result
  }

  #takeRead(from: number, to: number): WholeEvent {
    if (to - from > this.#readBytes) return 'unread'
    this.#readBytes -= to - from
    return 'passed'
  }

  /** Counts bytes, and reports the first byte, the response id and events. */
  #count(bytes: Uint8Array, from: number, to: number): void {
    this.#bytes += to - from
    if (!this.#started) this.#start(bytes, from, to)
    if (this.#idFinder?.looks === true) this.#idFinder.take(bytes.subarray(from, to))
    if (this.observer.events < this.#reportAt) return
    this.#reportAt = this.#options.onEvents(this.observer.events, this.observer.usage()?.outputTokens ?? null)
  }

  /** Openings, which some engines send before the prefill, are no first byte. */
  #start(bytes: Uint8Array, from: number, to: number): void {
    if (this.#prelude !== null) {
      const unreadFrom = this.#skipRead(from, to)
      if (unreadFrom < to) this.#prelude.take(bytes.subarray(unreadFrom, to), () => {})
    }
    const observer = this.#prelude ?? this.observer
    if (observer.isWaiting) return
    this.#started = true
    this.#prelude = null
    if (observer.error === null) this.#options.onFirstByte()
  }

  /**
   * Handles the clean end of the body. Returns the failure of a stream without its protocol's end; null: the client may
   * have a clean end.
   */
  end(emit: (piece: Uint8Array) => void): OriginError | null {
    this.observer.end(emit)
    if (!this.#checksEnd) return null
    this.#outcome = this.observer.outcome()
    return this.#outcome === 'truncated' ? new OriginError('reset', 'the stream ended without its last event') : null
  }

  /**
   * Handles the end of a body that broke. Returns the failure; null: the last event of the protocol was read, so
   * nothing is missing, and the client may have a clean end.
   */
  endBroken(error: OriginError, emit: (piece: Uint8Array) => void): OriginError | null {
    return !this.#settled && this.#hasEnded ? this.end(emit) : error
  }

  /** The last event was read. Of a body that passes unread, only the beginning was. */
  get #hasEnded(): boolean {
    const { reads, start } = this.#traits
    return reads ? this.#checksEnd && this.observer.hasEnded : start?.hasLastEvent === true
  }

  get #checksEnd(): boolean {
    const { sse, reads } = this.#traits
    return sse && reads && this.#options.checksEnd === true
  }

  /** Restarts the idle limit: bytes came, or the wait for bytes begins. */
  active(now: number): void {
    this.#idleSince = now
    this.#patience = null
  }

  /** Restarts the heartbeat interval. */
  beat(now: number): void {
    this.#heartbeatAt = now
  }

  /** Time until `check` is due, ms; Infinity: never. `firstByteInMs`: time left for the first byte. */
  checkInMs(now: number, firstByteInMs = Infinity): number {
    const { idleMs } = this.#options
    let inMs = firstByteInMs
    if (this.#started) inMs = idleMs > 0 ? this.#idleSince + idleMs - now : Infinity
    if (this.#patience !== null) inMs = this.#extendedUntil - now
    return this.#heartbeatMs > 0 ? Math.min(inMs, this.#quietSince + this.#heartbeatMs - now) : inMs
  }

  /**
   * Decision on an engine that sends nothing: the failure to stop it with, a heartbeat to send, or null (wait on).
   * @param lateMs time by which this process was late, which is not the engine's fault: limits are extended by it
   */
  check(now: number, lateMs: number, firstByteInMs = Infinity): OriginError | 'heartbeat' | null {
    const passed = this.#passedLimit(now, firstByteInMs)
    if (passed !== null && !this.#isExtended(now, lateMs)) return passed
    if (this.#heartbeatMs <= 0 || now - this.#quietSince < this.#heartbeatMs - 1) return null
    this.beat(now)
    return this.canBeat ? 'heartbeat' : null
  }

  #passedLimit(now: number, firstByteInMs: number): OriginError | null {
    const { idleMs } = this.#options
    if (!this.#started && firstByteInMs <= 0)
      return new OriginError('first_byte_timeout', 'no byte of the body within the limit')
    // Clocks that move only with I/O may lag: without a millisecond of tolerance the timer would fire in a loop.
    if (this.#started && idleMs > 0 && now - this.#idleSince >= idleMs - 1)
      return new OriginError('idle_timeout', `no byte for ${idleMs} ms`)
    return null
  }

  #isExtended(now: number, lateMs: number): boolean {
    // Woken in the middle of an extension, for a heartbeat.
    if (this.#patience !== null && now < this.#extendedUntil - 1) return true
    this.#patience ??= new Patience(this.#options.idleMs, this.#traits.readMs)
    const extensionMs = this.#patience.extensionMs(lateMs)
    this.#extendedUntil = now + extensionMs
    return extensionMs > 0
  }

  /**
   * Settles a response that the engine did not complete. Returns the SSE error event to send before the connection is
   * closed; null: there is no place for an event. `hasRoom`: the mover can send one.
   */
  truncate(failure: AttemptFailure, hasRoom: boolean): Uint8Array | null {
    this.settle('engine_truncated', failure)
    if (!hasRoom || !this.#traits.sse || !this.#atBoundary) return null
    // The first byte of a further engine, behind output: the client has seen silence.
    const seen = failure === 'first_byte_timeout' && this.#started ? 'idle_timeout' : failure
    return this.#options.truncationEvent?.(seen, this.observer.nextSequence) ?? null
  }

  /** Reports the end. Has effect once. */
  settle(end: RelayResult['end'], failure: AttemptFailure | null = null): void {
    if (this.#settled) return
    this.#settled = true
    const { events, outputs } = this.observer
    const reported = this.observer.usage()
    const usage = reported === null ? null : completeUsage(reported)
    const ended = (end === 'complete' ? this.#fault() : null) ?? { end, failure }
    this.#options.settled({ ...ended, events, outputs, reported, usage, bytes: this.#bytes })
  }

  /** The engine's fault in a stream that has ended. null: the stream is complete. */
  #fault(): Pick<RelayResult, 'end' | 'failure'> | null {
    if (this.#outcome === 'complete') return null
    const status = this.observer.error?.status ?? 500
    const isRequestAtFault = this.#outcome === 'error' && status >= 400 && status < 500
    return {
      end: 'engine_error',
      failure: isRequestAtFault ? null : this.#outcome === 'error' ? 'status_5xx' : 'reset',
    }
  }

  get #heartbeatMs(): number {
    return this.#traits.sse ? this.#options.heartbeatMs : 0
  }

  get #quietSince(): number {
    return Math.max(this.#idleSince, this.#heartbeatAt)
  }
}
