/**
 * Moves a body from the engine's socket to the client's socket, without web streams: bytes are written in the tick of
 * their read, with the engine's chunk framing. Framing is rebuilt only if the tap removed an event inside a chunk, or
 * held bytes back, until engine and client are at the same chunk boundary again.
 */
import { HEARTBEAT, RelayController } from '../../../origin/relay/controller.ts'
import type { Tap } from '../../../origin/relay/tap.ts'
import { OriginError, type RelayResult, type RelayOptions } from '../../../ports.ts'
import { CRLF, chunkOf, LAST_CHUNK } from './chunked.ts'
import type { ResponseWriter } from './response-writer.ts'
import type { BodyFraming } from './body-framing.ts'
import type { BodySink, Http1Request } from './engine-request.ts'

/* What the tap did to the payload ranges of one read. */

/** How much of a range passed: nothing, a part, all; MIXED: unknown, because bytes were held back. */
const NONE = 0
const SOME = 1
const ALL = 2
const MIXED = 3

export class TapResult {
  /** Pieces that the tap emitted for ranges that it read, in order. */
  readonly #emitted: Uint8Array[] = []
  /** For each range: number of pieces emitted after it; -1: it passed unchanged, without a piece. */
  readonly #ends: number[] = []
  readonly #fates: number[] = []
  #counted = 0
  /** Number of pieces emitted before this read. */
  #before = 0
  #all = true
  readonly emit = (piece: Uint8Array): void => void this.#emitted.push(piece)

  /** Exactly the bytes of the read passed. */
  get all(): boolean {
    return this.#all
  }

  /** Pieces that the tap emitted. */
  get pieces(): readonly Uint8Array[] {
    return this.#emitted
  }

  /** Marks the pieces so far as older than this read. */
  startRead(): void {
    this.#before = this.#counted = this.#emitted.length
  }

  /** Notes that the next range passed unchanged. */
  whole(): void {
    this.#ends.push(-1)
    this.#fates.push(ALL)
  }

  /** Notes that the tap read the next range. `clean`: no bytes were held back before or after it. */
  taken(length: number, clean: boolean): void {
    let size = 0
    for (let i = this.#counted; i < this.#emitted.length; i++) size += this.#emitted[i]!.length
    this.#counted = this.#emitted.length
    this.#ends.push(this.#counted)
    const fate = !clean ? MIXED : size === length ? ALL : size === 0 ? NONE : SOME
    this.#fates.push(fate)
    if (fate !== ALL) this.#all = false
  }

  clear(): void {
    this.#emitted.length = 0
    this.#ends.length = 0
    this.#fates.length = 0
    this.#counted = this.#before = 0
    this.#all = true
  }

  /** Everything that passed, in order. */
  piecesOf(bytes: Buffer, ranges: readonly number[]): readonly Uint8Array[] {
    const pieces = this.#emitted.slice(0, this.#before)
    let from = this.#before
    for (let i = 0; i < this.#ends.length; i++) {
      const end = this.#ends[i]!
      if (end < 0) pieces.push(bytes.subarray(ranges[2 * i]!, ranges[2 * i + 1]!))
      else for (; from < end; from++) pieces.push(this.#emitted[from]!)
    }
    for (; from < this.#emitted.length; from++) pieces.push(this.#emitted[from]!)
    return pieces
  }

  /**
   * The bytes in the engine's framing, without what the tap removed: complete chunks are dropped, others are framed
   * again. Each range is one whole chunk. null: bytes were held back, so the chunks do not match what passed.
   */
  withoutDropped(bytes: Buffer, ranges: readonly number[]): readonly Uint8Array[] | null {
    if (this.#before > 0 || this.#fates.includes(MIXED)) return null
    const parts: Uint8Array[] = []
    let done = 0
    let piece = 0
    for (let i = 0; i < this.#fates.length; i++) {
      const pieces = this.#ends[i]! < 0 ? [] : this.#emitted.slice(piece, this.#ends[i])
      piece += pieces.length
      if (this.#fates[i] === ALL) continue
      const chunkFrom = i === 0 ? 0 : ranges[2 * i - 1]! + CRLF.length
      if (chunkFrom > done) parts.push(bytes.subarray(done, chunkFrom))
      if (pieces.length > 0) parts.push(...chunkOf(pieces))
      done = ranges[2 * i + 1]! + CRLF.length
    }
    if (done < bytes.length) parts.push(bytes.subarray(done))
    return parts
  }
}

export interface RawRelayParts {
  readonly reply: RelayOptions
  readonly sse: boolean
  readonly call: Http1Request
  readonly line: ResponseWriter
}

const USAGE = Buffer.from('"usage"')

export class RawRelay implements BodySink {
  readonly #parts: RawRelayParts
  readonly #writer: ClientWriter
  readonly #control: RelayController
  readonly #tap: Tap
  readonly #passed = new TapResult()
  readonly #reads: boolean
  /** Engine and client are at the same chunk boundary. */
  #inStep = true
  /** The last read ended at the end of a chunk. */
  #aligned = true

  constructor(parts: RawRelayParts) {
    this.#parts = parts
    const { reply, call, line, sse } = parts
    this.#writer = new ClientWriter(line, call.framing!, () => this.#drained())
    this.#reads = reply.observe || reply.hideUsage
    this.#control = new RelayController(reply, { sse, reads: this.#reads, strips: call.framing!.kind !== 'length' })
    this.#tap = this.#control.tap
  }

  get holds(): boolean {
    return this.#writer.holds || this.#tap.heldBytes > 0
  }

  /** Writes the head and the bytes that wait; the request passes all later bytes to `take`. `held` was read before. */
  begin(held: readonly Uint8Array[]): void {
    const { call, reply, line } = this.#parts
    const { pieces, read, ended, failure } = call.handOver(this)
    const now = performance.now()
    this.#control.active(now)
    this.#control.beat(now)
    this.#writer.open(reply.status, reply.headers)
    if (held.length > 0 || pieces.length > 0 || read === null) {
      for (const piece of held) this.#control.take(piece, this.#passed.emit)
      for (const piece of pieces) this.#control.take(piece, this.#passed.emit)
      if (read === null) return this.#beginWithoutRead(ended, failure)
      this.#passed.startRead()
    }
    // Bytes that waited get a chunk of ours, and so do those of this read.
    this.#aligned = read.whole
    this.#inStep = read.whole && held.length === 0 && pieces.length === 0
    this.take(read.bytes, call.framing!, read.last)
    if (this.#control.settled) return
    this.#writer.began()
    if (line.gone) return this.clientGone()
    this.#arm()
  }

  take(bytes: Buffer, framing: BodyFraming, last: boolean): void {
    if (this.#control.settled) return
    this.#control.active(performance.now())
    const heldBefore = this.#tap.heldBytes
    this.#readRanges(bytes, framing.ranges)
    const truncated = last ? this.#control.end(this.#passed.emit) : null
    if (truncated !== null) return this.#writeTruncated(truncated, bytes, framing)
    this.#write(bytes, framing, { last, heldBefore })
    this.#passed.clear()
    this.#aligned = framing.aligned
    if (last) return this.#settle('complete')
    if (this.#writer.full) this.#parts.call.pause()
  }

  broken(reason: unknown): void {
    if (this.#control.settled) return
    if (!(reason instanceof OriginError)) return this.clientGone()
    this.#truncate(reason, this.#writer.atBoundary(this.#parts.call.framing!, this.#inStep))
  }

  clientGone(): void {
    if (this.#control.settled) return
    this.#settle('client_gone')
    this.#parts.call.stop(new OriginError('reset', 'the client is gone'))
    this.#writer.cut(null)
  }

  /** Called by the timer of the request. Bytes that come move no timer. */
  due(): void {
    if (this.#control.settled || this.#writer.full) return
    const { call } = this.#parts
    const now = performance.now()
    const decision = this.#control.check(now, call.firstByteInMs)
    if (decision instanceof OriginError) return call.stop(decision)
    if (decision === 'heartbeat') this.#beat(now)
    if (!this.#control.settled) this.#arm()
  }

  /** Sends the error event, if there is room for one, and breaks the connection. */
  #truncate({ failure }: OriginError, hasRoom: boolean): void {
    this.#parts.call.release()
    this.#writer.cut(this.#control.truncate(failure, hasRoom))
  }

  /** Sets the timer for the next check. While the client does not read, the engine cannot time out. */
  #arm(): void {
    const { call } = this.#parts
    if (this.#writer.full) return call.pause()
    const inMs = this.#control.checkInMs(performance.now(), call.firstByteInMs)
    if (inMs < Infinity) call.wakeIn(inMs)
  }

  #drained(): void {
    if (this.#control.settled) return
    this.#parts.call.resume()
    this.#control.active(performance.now())
    this.#arm()
  }

  /** A comment inside an event or a chunk would break it. */
  #beat(now: number): void {
    this.#control.beat(now)
    if (this.#control.canBeat && this.#writer.atBoundary(this.#parts.call.framing!, this.#inStep))
      this.#writer.rebuilt([HEARTBEAT], false)
  }

  /** Writes the head when no read is in progress: with the bytes that waited, and with the end if it is known. */
  #beginWithoutRead(ended: boolean, failure: unknown): void {
    const { call, line } = this.#parts
    const truncated = ended ? this.#control.end(this.#passed.emit) : null
    this.#inStep = this.#aligned = call.framing!.aligned
    this.#writer.rebuilt(this.#passed.pieces, ended && truncated === null)
    this.#passed.clear()
    if (truncated !== null) return this.broken(truncated)
    if (ended) return this.#settle('complete')
    if (failure !== null) return this.broken(failure)
    if (line.gone) return this.clientGone()
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
    const { hideUsage } = this.#parts.reply
    // If an event may have to be removed: whole chunks only.
    const keepsChunks = !hideUsage || (heldBefore === 0 && (framing.aligned || last))
    const raw = framing.kind === 'length' || (this.#writer.asFramed && this.#inStep && keepsChunks)
    if (raw && this.#passed.all) return this.#writer.raw(bytes, last)
    const kept =
      raw && framing.chunks?.hasTrailers === false ? this.#passed.withoutDropped(bytes, framing.ranges) : null
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
    let usageAt = this.#reads && this.#parts.sse ? bytes.indexOf(USAGE) : -1
    for (let i = 0; i < ranges.length; i += 2) {
      const from = ranges[i]!
      const to = ranges[i + 1]!
      if (usageAt >= 0 && usageAt < from) usageAt = bytes.indexOf(USAGE, from)
      const hasUsage = usageAt >= 0 && usageAt < to
      if (!hasUsage && this.#control.takeWhole(bytes, from, to)) this.#passed.whole()
      else {
        const clean = this.#tap.heldBytes === 0
        this.#control.take(bytes.subarray(from, to), this.#passed.emit)
        this.#passed.taken(to - from, clean && this.#tap.heldBytes === 0)
      }
    }
  }

  #settle(end: RelayResult['end']): void {
    this.#parts.call.release()
    this.#control.settle(end)
  }
}

/*
 * Writes one response to the client: in the engine's chunk framing, or in chunks of its own where bytes were withheld
 * or added.
 */

class ClientWriter {
  readonly #line: ResponseWriter
  readonly #framing: BodyFraming
  readonly #onDrain: () => void
  /** The client gets chunk framing from here; false: the response writer frames the bytes, or the close ends them. */
  #ours = false
  #waiting = false

  constructor(line: ResponseWriter, framing: BodyFraming, onDrain: () => void) {
    this.#line = line
    this.#framing = framing
    this.#onDrain = onDrain
  }

  /** The client has not taken what was written. */
  get full(): boolean {
    return this.#waiting
  }

  /** Bytes may go to the client as the engine framed them. */
  get asFramed(): boolean {
    return this.#ours || this.#framing.chunks === null
  }

  /** Memory given to the last write is still in use. */
  get holds(): boolean {
    return this.#line.holds
  }

  open(status: number, headers: readonly string[]): void {
    const flat = [...headers]
    this.#ours = this.#framing.kind === 'chunked' && this.#line.takesChunks
    if (this.#ours) flat.push('transfer-encoding', 'chunked')
    else if (this.#framing.kind === 'length') flat.push('content-length', String(this.#framing.length))
    this.#line.head(status, flat, this.#ours)
  }

  /** Bytes as the engine framed them. */
  raw(bytes: Buffer, last: boolean): void {
    const { chunks } = this.#framing
    if (!this.#ours || chunks === null || !chunks.hasTrailers) this.#write(bytes, last)
    else {
      // Trailers are not forwarded: the message ends after the last chunk's line.
      const kept = bytes.subarray(0, chunks.afterLastChunk)
      this.#write(last ? Buffer.concat([kept, CRLF]) : kept, last)
    }
    if (last) this.#line.end()
  }

  /** Parts of the engine's framing, each of whole chunks. */
  parts(parts: readonly Uint8Array[], last: boolean): void {
    this.raw(parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts), last)
  }

  /** Sends the head and the bytes written with it. */
  began(): void {
    this.#line.flush()
  }

  /** Payload in a chunk of its own. */
  rebuilt(pieces: readonly Uint8Array[], last: boolean): void {
    const parts: Uint8Array[] = []
    const filled = pieces.filter((piece) => piece.length > 0)
    if (filled.length > 0) parts.push(...(this.#ours ? chunkOf(filled) : filled))
    if (last && this.#ours) parts.push(LAST_CHUNK)
    if (parts.length > 0) this.#write(parts.length === 1 ? parts[0]! : Buffer.concat(parts), last)
    if (last) this.#line.end()
    else this.began()
  }

  /** The client has received whole chunks only. */
  atBoundary(framing: BodyFraming, inStep: boolean): boolean {
    return !this.#ours || !inStep || framing.aligned
  }

  /** Ends a broken response after `event`, without the last chunk: the client sees a cut. */
  cut(event: Uint8Array | null): void {
    if (event === null || this.#line.gone) return this.#line.destroy()
    this.rebuilt([event], false)
    this.#line.cut()
  }

  #write(bytes: Uint8Array, last: boolean): void {
    if (bytes.length === 0) return
    const flowing = this.#line.write(bytes, last)
    if (flowing || this.#waiting || last) return
    this.#waiting = true
    this.#line.drained(() => {
      this.#waiting = false
      this.#onDrain()
    })
  }
}
