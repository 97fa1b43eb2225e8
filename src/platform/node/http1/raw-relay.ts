/**
 * Moves a body from the engine's socket to the client's socket, without web streams: bytes are written in the tick of
 * their read, with the engine's chunk framing. Framing is rebuilt only if an event inside a chunk was removed, or
 * held bytes back, until engine and client are at the same chunk boundary again.
 */
import { HEARTBEAT } from '../../../protocols/stream/event.ts'
import type { AnswerStart } from '../../../origin/relay/answer-start.ts'
import { RelayController } from '../../../origin/relay/relay-controller.ts'
import type { AnswerObserver } from '../../../origin/relay/answer-observer.ts'
import { OriginError } from '../../../ports/origin.ts'
import type { RelayOptions, RelayResult } from '../../../ports/relay.ts'
import type { BodyFraming } from './body-framing.ts'
import type { BodySink, RelayedRequest } from './body-sink.ts'
import { CRLF } from './chunked.ts'
import { ClientWriter } from './client-writer.ts'
import type { ResponseWriter } from './response-writer.ts'
import { PassedRanges } from './passed-ranges.ts'

interface RawRelayParts {
  readonly options: RelayOptions
  readonly sse: boolean
  readonly start: AnswerStart
  readonly request: RelayedRequest
  readonly writer: ResponseWriter
}

export class RawRelay implements BodySink {
  readonly #parts: RawRelayParts
  readonly #writer: ClientWriter
  readonly #control: RelayController
  readonly #observer: AnswerObserver
  readonly #passed = new PassedRanges()
  readonly #hidesUsage: boolean
  /** Engine and client are at the same chunk boundary. */
  #inStep = true
  /** The last read ended at the end of a chunk. */
  #aligned = true

  constructor(parts: RawRelayParts) {
    this.#parts = parts
    const { options, request, writer, sse, start } = parts
    this.#writer = new ClientWriter(writer, request.framing!, this)
    this.#hidesUsage = options.hideUsage
    this.#control = new RelayController(options, {
      sse,
      reads: options.observe,
      hidesUsage: this.#hidesUsage,
      start,
      readMs: 0,
    })
    this.#observer = this.#control.observer
  }

  get holds(): boolean {
    return this.#writer.holds || this.#observer.heldBytes > 0
  }

  /** Writes the head and the bytes that wait; the request passes all later bytes to `take`. `held` was read before. */
  begin(held: readonly Uint8Array[]): void {
    const { request, options, writer } = this.#parts
    const { pieces, read, ended, failure } = request.passTo(this)
    const now = performance.now()
    this.#control.active(now)
    this.#control.beat(now)
    this.#writer.open(options.status, options.headers)
    if (held.length > 0 || pieces.length > 0 || read === null) {
      for (const piece of held) this.#control.take(piece, this.#passed.emit)
      for (const piece of pieces) this.#control.take(piece, this.#passed.emit)
      if (read === null) return this.#beginWithoutRead(ended, failure)
      this.#passed.startRead()
    }
    // Bytes that waited get a chunk of ours, and so do those of this read.
    this.#aligned = read.whole
    this.#inStep = read.whole && held.length === 0 && pieces.length === 0
    this.take(read.bytes, request.framing!, read.last)
    if (this.#control.settled) return
    this.#writer.began()
    if (writer.gone) return this.clientGone()
    this.#arm()
  }

  take(bytes: Buffer, framing: BodyFraming, last: boolean): void {
    if (this.#control.settled) return
    this.#control.active(performance.now())
    const heldBefore = this.#observer.heldBytes
    this.#readRanges(bytes, framing.ranges)
    const truncated = last ? this.#control.end(this.#passed.emit) : null
    if (truncated !== null) return this.#writeTruncated(truncated, bytes, framing)
    this.#write(bytes, framing, { last, heldBefore })
    this.#passed.clear()
    this.#aligned = framing.aligned
    if (last) return this.#settle('complete')
    if (this.#writer.full) this.#parts.request.pause()
  }

  broken(reason: unknown): void {
    if (this.#control.settled) return
    if (!(reason instanceof OriginError)) return this.clientGone()
    const framing = this.#parts.request.framing!
    const hasRoom = this.#writer.atBoundary(framing, this.#inStep)
    const canEnd = hasRoom && framing.kind !== 'length'
    if (!canEnd || this.#control.endBroken(reason, this.#passed.emit) !== null) return this.#truncate(reason, hasRoom)
    this.#writer.rebuilt([], true)
    this.#settle('complete')
  }

  clientGone(): void {
    if (this.#control.settled) return
    this.#settle('client_gone')
    this.#parts.request.stop(new OriginError('reset', 'the client has disconnected'))
    this.#writer.truncate(null)
  }

  /** Called by the timer of the request. Bytes that come move no timer. */
  due(lateMs: number): void {
    if (this.#control.settled || this.#writer.full) return
    const { request } = this.#parts
    const now = performance.now()
    const decision = this.#control.check(now, lateMs, request.firstByteInMs)
    if (decision instanceof OriginError) return request.stop(decision)
    if (decision === 'heartbeat') this.#beat()
    if (!this.#control.settled) this.#arm()
  }

  /** Called by the writer: the client has taken what was written. */
  drained(): void {
    if (this.#control.settled) return
    this.#parts.request.resume()
    this.#control.active(performance.now())
    this.#arm()
  }

  /** Sends the error event, if there is room for one, and breaks the connection. */
  #truncate({ failure }: OriginError, hasRoom: boolean): void {
    this.#parts.request.release()
    this.#writer.truncate(this.#control.truncate(failure, hasRoom))
  }

  /** Sets the timer for the next check. While the client does not read, the engine cannot time out. */
  #arm(): void {
    const { request } = this.#parts
    if (this.#writer.full) return request.pause()
    const inMs = this.#control.checkInMs(performance.now(), request.firstByteInMs)
    if (inMs < Infinity) request.wakeIn(inMs)
  }

  /** A comment inside a chunk would break it. */
  #beat(): void {
    if (this.#writer.atBoundary(this.#parts.request.framing!, this.#inStep)) this.#writer.rebuilt([HEARTBEAT], false)
  }

  /** Writes the head when no read is in progress: with the bytes that waited, and with the end if it is known. */
  #beginWithoutRead(ended: boolean, failure: unknown): void {
    const { request, writer } = this.#parts
    const truncated = ended ? this.#control.end(this.#passed.emit) : null
    this.#inStep = this.#aligned = request.framing!.aligned
    this.#writer.rebuilt(this.#passed.pieces, ended && truncated === null)
    this.#passed.clear()
    if (truncated !== null) return this.broken(truncated)
    if (ended) return this.#settle('complete')
    if (failure !== null) return this.broken(failure)
    if (writer.gone) return this.clientGone()
    this.#arm()
  }

  /**
   * Writes the bytes unchanged if nothing was held back or removed, and the client is at the engine's chunk boundary.
   */
  #write(
    bytes: Buffer,
    framing: BodyFraming,
    { last, heldBefore }: { readonly last: boolean; readonly heldBefore: number },
  ): void {
    // If an event may have to be removed: whole chunks only.
    const keepsChunks = !this.#hidesUsage || (heldBefore === 0 && (framing.aligned || last))
    const raw = framing.kind === 'length' || (this.#writer.asFramed && this.#inStep && keepsChunks)
    if (raw && this.#passed.all) return this.#writer.raw(bytes, last)
    const isClean = framing.chunks?.hasTrailers === false && framing.chunks.blanks.length === 0
    const kept = raw && isClean ? this.#passed.withoutDropped(bytes, framing.ranges) : null
    if (kept !== null) return this.#writer.parts(kept, last)
    this.#writer.rebuilt(this.#passed.piecesOf(bytes, framing.ranges), last)
    this.#inStep = framing.aligned
  }

  /** Writes the last bytes of a stream that lacks its end, without the last chunk. */
  #writeTruncated(error: OriginError, bytes: Buffer, framing: BodyFraming): void {
    const { ranges } = framing
    let hasRoom = true
    if (this.#writer.asFramed && this.#inStep && this.#passed.all && ranges.length > 0)
      this.#writer.raw(bytes.subarray(0, ranges.at(-1)! + CRLF.length), false)
    else if (!this.#inStep || this.#aligned) this.#writer.rebuilt(this.#passed.piecesOf(bytes, ranges), false)
    // An error event inside a chunk of the engine would break the framing.
    else hasRoom = false
    this.#truncate(error, hasRoom)
  }

  #readRanges(bytes: Buffer, ranges: readonly number[]): void {
    for (let i = 0; i < ranges.length; i += 2) {
      const from = ranges[i]!
      const to = ranges[i + 1]!
      const whole = this.#control.takeWhole(bytes, from, to)
      if (whole === 'passed') continue
      let isClean = true
      if (whole === 'unread') {
        isClean = this.#observer.heldBytes === 0
        this.#control.take(bytes.subarray(from, to), this.#passed.emit)
        isClean &&= this.#observer.heldBytes === 0
      }
      this.#passed.addObserved(i / 2, to - from, isClean)
    }
  }

  #settle(end: RelayResult['end']): void {
    this.#parts.request.release()
    this.#control.settle(end)
  }
}
