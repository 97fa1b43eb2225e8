import type { AttemptFailure } from '../../core/contract/outcome.ts'
import { OriginError } from '../../ports/origin.ts'
import type { RelayOptions, RelayResult } from '../../ports/relay.ts'
import { LeadingComments } from './leading-comments.ts'
import { ResponseIdFinder } from './response-id-finder.ts'
import { openTap, type Tap } from './tap.ts'

/** @testing */
export interface RelayTraits {
  /** The body is a stream of server-sent events. */
  readonly sse: boolean
  /** The tap reads the body. false: bytes pass unread. */
  readonly reads: boolean
  /** The usage record can be removed. Not so if the client already has the length of the body. */
  readonly strips: boolean
}

/**
 * State of one relay: start, heartbeat and idle timeout, usage stripping, truncation and end. It has no timer and moves
 * no bytes. The mover passes the time (ms, monotonic) and calls `check` when `checkInMs` have passed.
 */
export class RelayController {
  readonly tap: Tap
  readonly #options: RelayOptions
  readonly #traits: RelayTraits
  readonly #idFinder: ResponseIdFinder | null
  /** Read while no content has come. */
  #comments: LeadingComments | null = null
  #started = false
  #settled = false
  #bytes = 0
  /** Number of events at which they are reported next. */
  #reportAt: number
  #idleSince = 0
  #heartbeatAt = 0

  constructor(options: RelayOptions, traits: RelayTraits) {
    this.#options = options
    this.#reportAt = options.firstEvents > 0 ? options.firstEvents : Infinity
    this.#traits = traits
    this.tap = openTap(traits.sse, options.hideUsage && traits.strips)
    this.#idFinder = ResponseIdFinder.for(options.onResponseId)
  }

  /** The end was reported. */
  get settled(): boolean {
    return this.#settled
  }

  /** A heartbeat may be sent now: the client gets heartbeats, and no event is incomplete. */
  get canBeat(): boolean {
    return this.#heartbeatMs > 0 && this.tap.atBoundary
  }

  /** Reads bytes of the engine. `emit` gets those that go to the client. */
  take(payload: Uint8Array, emit: (piece: Uint8Array) => void): void {
    if (this.#traits.reads) this.tap.take(payload, emit)
    else emit(payload)
    this.#count(payload, 0, payload.length)
  }

  /**
   * Reads a range that is one whole event and passes unchanged. The caller makes sure that it has no usage record.
   * false: it is something else; `take` it.
   */
  takeWhole(bytes: Uint8Array, from: number, to: number): boolean {
    if (!this.#traits.reads || !this.tap.takesWhole(bytes, from, to)) return false
    this.#count(bytes, from, to)
    return true
  }

  /** Counts bytes, and reports the first byte, the response id and events. */
  #count(bytes: Uint8Array, from: number, to: number): void {
    this.#bytes += to - from
    if (!this.#started && this.#hasContent(bytes, from, to)) {
      this.#started = true
      this.#comments = null
      this.#options.onFirstByte()
    }
    if (this.#idFinder?.looks === true) this.#idFinder.take(bytes.subarray(from, to))
    if (this.tap.events < this.#reportAt) return
    this.#reportAt = this.#options.onEvents(this.tap.events, this.tap.usage()?.completionTokens ?? null)
  }

  /**
   * Handles the clean end of the body. Returns the failure of a stream without `[DONE]`; null: the body is complete.
   */
  end(emit: (piece: Uint8Array) => void): OriginError | null {
    this.tap.end(emit)
    const { observe, endsWithDone } = this.#options
    const isComplete = !this.#traits.sse || !observe || endsWithDone !== true || this.tap.done
    return isComplete ? null : new OriginError('reset', 'the stream ended without [DONE]')
  }

  /** Restarts the idle limit: bytes came, or the wait for bytes begins. */
  active(now: number): void {
    this.#idleSince = now
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
    return this.#heartbeatMs > 0 ? Math.min(inMs, this.#quietSince + this.#heartbeatMs - now) : inMs
  }

  /** Decision on an engine that sends nothing: the failure to stop it with, a heartbeat, or null (wait on). */
  check(now: number, firstByteInMs = Infinity): OriginError | 'heartbeat' | null {
    const { idleMs } = this.#options
    if (!this.#started && firstByteInMs <= 0)
      return new OriginError('first_byte_timeout', 'no byte of the body within the limit')
    // Clocks that move only with I/O may lag: without a millisecond of tolerance the timer would fire in a loop.
    if (this.#started && idleMs > 0 && now - this.#idleSince >= idleMs - 1)
      return new OriginError('idle_timeout', `no byte for ${idleMs} ms`)
    return this.#heartbeatMs > 0 && now - this.#quietSince >= this.#heartbeatMs - 1 ? 'heartbeat' : null
  }

  /**
   * Settles a response that the engine did not complete. Returns the SSE error event to send before the connection is
   * closed; null: there is no place for an event. `hasRoom`: the mover can send one.
   */
  truncate(failure: AttemptFailure, hasRoom: boolean): Uint8Array | null {
    this.settle('engine_truncated', failure)
    return hasRoom && this.#traits.sse && this.tap.atBoundary
      ? (this.#options.truncationEvent?.(failure) ?? null)
      : null
  }

  /** Reports the end. Has effect once. */
  settle(end: RelayResult['end'], failure: AttemptFailure | null = null): void {
    if (this.#settled) return
    this.#settled = true
    const { events } = this.tap
    this.#options.settled({ end, failure, events, usage: this.tap.usage(), bytes: this.#bytes })
  }

  get #heartbeatMs(): number {
    return this.#traits.sse ? this.#options.heartbeatMs : 0
  }

  get #quietSince(): number {
    return Math.max(this.#idleSince, this.#heartbeatAt)
  }

  #hasContent(bytes: Uint8Array, from: number, to: number): boolean {
    return !this.#traits.sse || (this.#comments ??= new LeadingComments()).hasContent(bytes, from, to)
  }
}
