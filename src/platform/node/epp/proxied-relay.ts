/** Moves the body of a response back to the proxy, in the tick in which its pieces come. */
import { RelayController } from '../../../origin/relay/relay-controller.ts'
import { HEARTBEAT } from '../../../protocols/stream/event.ts'
import { OriginError } from '../../../ports/origin.ts'
import type { RelayOptions, RelayResult } from '../../../ports/relay.ts'
import { WheelTimer } from '../wheel-timer.ts'
import type { BegunBody } from './proxied-answer.ts'

/** Where the body goes. */
export interface BodyOutlet {
  /** `last`: nothing follows. */
  write(pieces: readonly Uint8Array[], last: boolean): void
  /** The response is truncated: ends the call with an error, so that the proxy breaks the response. */
  truncate(): void
  /** The proxy reads slower than bytes come. */
  readonly isFull: boolean
}

interface RelayParts {
  readonly options: RelayOptions
  readonly body: BegunBody
  readonly outlet: BodyOutlet
  /** The body can be changed, also by heartbeats and error events. */
  readonly changes: boolean
}

export class ProxiedRelay {
  readonly #parts: RelayParts
  readonly #control: RelayController
  readonly #out: Uint8Array[] = []
  readonly #emit = (piece: Uint8Array): void => void this.#out.push(piece)
  readonly #timer = new WheelTimer(() => this.#due())

  constructor(parts: RelayParts) {
    this.#parts = parts
    const { options, body, changes } = parts
    this.#control = new RelayController(options, {
      sse: body.sse,
      reads: options.observe,
      hidesUsage: options.hideUsage && changes,
      start: body.start,
      readMs: 0,
    })
  }

  get settled(): boolean {
    return this.#control.settled
  }

  /** Passes on what was read before. */
  begin(): void {
    const { held, ended } = this.#parts.body
    const now = performance.now()
    this.#control.active(now)
    this.#control.beat(now)
    for (const piece of held) this.#control.take(piece, this.#emit)
    if (ended) return this.end(true)
    if (this.#out.length > 0) this.#flush(false)
    this.#arm(now)
  }

  take(piece: Uint8Array): void {
    if (this.#control.settled) return
    this.#control.active(performance.now())
    this.#control.take(piece, this.#emit)
    this.#flush(false)
  }

  /** The last piece of the body. */
  takeLast(piece: Uint8Array): void {
    if (this.#control.settled) return
    if (piece.length > 0) this.#control.take(piece, this.#emit)
    this.end(true)
  }

  /** @param isLast the end goes out with the body; false: trailers follow */
  end(isLast: boolean): void {
    if (this.#control.settled) return
    const error = this.#control.end(this.#emit)
    if (error !== null) return this.fail(error)
    if (isLast || this.#out.length > 0) this.#flush(isLast)
    this.#settle('complete')
  }

  /** The engine stopped sending. */
  fail(error: OriginError): void {
    if (this.#control.settled) return
    if (this.#control.endBroken(error, this.#emit) === null) return this.#endEarly()
    this.#timer.cancel()
    const event = this.#control.truncate(error.failure, this.#parts.changes)
    if (event !== null) this.#out.push(event)
    if (this.#out.length > 0) this.#flush(false)
    this.#parts.outlet.truncate()
  }

  /** Ends a response whose engine does not. Without a byte beside the end, Envoy waits for the engine's end. */
  #endEarly(): void {
    this.#out.push(HEARTBEAT)
    this.#flush(true)
    this.#settle('complete')
  }

  /** The client has left, or the proxy. */
  gone(): void {
    this.#settle('client_gone')
  }

  /** The proxy has ended the call without having passed the body through it. */
  endUnread(): void {
    this.#settle('complete')
  }

  #flush(last: boolean): void {
    this.#parts.outlet.write(this.#out, last)
    this.#out.length = 0
  }

  #settle(end: RelayResult['end']): void {
    this.#timer.cancel()
    this.#control.settle(end)
  }

  #arm(now: number): void {
    const inMs = this.#control.checkInMs(now)
    if (!this.#parts.changes || inMs === Infinity || this.#control.settled) return
    this.#timer.set(inMs)
  }

  /** Silence does not count while the proxy does not read. */
  #due(): void {
    const now = performance.now()
    if (this.#control.settled) return
    if (this.#parts.outlet.isFull) this.#control.active(now)
    const decision = this.#control.check(now, this.#timer.stalledMs)
    if (decision instanceof OriginError) return this.fail(decision)
    if (decision === 'heartbeat') this.#parts.outlet.write([HEARTBEAT], false)
    this.#arm(now)
  }
}
