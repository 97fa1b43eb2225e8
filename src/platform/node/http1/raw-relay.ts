/**
 * Passes an answer past the web streams: the engine's bytes go to the client's socket in the tick they were
 * read, framing and all. Framing is rebuilt only where an event was left out in the middle of a chunk, and after bytes
 * were held back, until engine and client stand at the same chunk boundary again.
 */
import type { AttemptFailure } from '../../../core/contract/contract.ts'
import { LeadingComments, ResponseIdFinder } from '../../../origin/relay/sse.ts'
import { openTap, type Tap } from '../../../origin/relay/tap.ts'
import { OriginError, type RelayResult, type RelayOptions } from '../../../ports.ts'
import { CRLF, chunkOf } from './chunked.ts'
import type { ResponseWriter } from './response-writer.ts'
import type { BodyFraming } from './body-framing.ts'
import type { BodySink, Http1Request } from './engine-request.ts'
import { ClientWriter } from './client-writer.ts'

/* What became of one read's payload ranges on their way through the tap. */

/** Nothing of a range passed, another amount than all, all; or it cannot be told, since bytes were held back. */
const NONE = 0
const SOME = 1
const ALL = 2
const MIXED = 3

export class TapResult {
  /** What the tap let through of ranges that were taken piece by piece, in order. */
  readonly #emitted: Uint8Array[] = []
  /** For each range: how many pieces had been let through behind it; -1: it passed as it is, and no piece was made. */
  readonly #ends: number[] = []
  readonly #fates: number[] = []
  #counted = 0
  /** Pieces that came before the read. */
  #before = 0
  #all = true
  readonly emit = (piece: Uint8Array): void => void this.#emitted.push(piece)

  /** Every byte of the read passed, and no other. */
  get all(): boolean {
    return this.#all
  }

  /** What was let through piece by piece. */
  get pieces(): readonly Uint8Array[] {
    return this.#emitted
  }

  /** What was let through so far came before this read. */
  startRead(): void {
    this.#before = this.#counted = this.#emitted.length
  }

  /** The next range passed as it is. */
  whole(): void {
    this.#ends.push(-1)
    this.#fates.push(ALL)
  }

  /** The next range was taken piece by piece. `clean`: nothing was held back before or behind it. */
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

  /** All that passed, in order. */
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
   * The bytes with their framing, but for what was left out: whole chunks go, others are framed anew. Each range is
   * one whole chunk. null: bytes were held back, so chunks do not tell what passed.
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

export interface RawPassParts {
  readonly reply: RelayOptions
  readonly sse: boolean
  readonly call: Http1Request
  readonly line: ResponseWriter
}

const ENDED_EARLY = new OriginError('reset', 'the stream ended without [DONE]')
const PING = Buffer.from(': ping\n\n')
const USAGE = Buffer.from('"usage"')

export class RawRelay implements BodySink {
  readonly #parts: RawPassParts
  readonly #writer: ClientWriter
  readonly #tap: Tap
  readonly #finder: ResponseIdFinder | null
  readonly #passed = new TapResult()
  readonly #observed: boolean
  /** Only while no content has come. */
  #prelude: LeadingComments | null = null
  #inStep = true
  /** The last read ended where a chunk ends. */
  #aligned = true
  #started = false
  #over = false
  #bytes = 0
  #steps = 0
  /** `performance.now()` of the last byte, or of when the client had taken all; of the last comment of ours. */
  #heardAt = 0
  #beatAt = 0

  constructor(parts: RawPassParts) {
    this.#parts = parts
    const { reply, call, line } = parts
    this.#writer = new ClientWriter(line, call.framing!, () => this.#drained())
    // What has a length is passed whole: the client was told it.
    this.#tap = openTap(parts.sse, reply.hideUsage && call.framing!.kind !== 'length')
    this.#observed = reply.observe || reply.hideUsage
    this.#finder = ResponseIdFinder.for(reply.onResponseId)
  }

  get holds(): boolean {
    return this.#writer.holds || this.#tap.heldBytes > 0
  }

  /** Writes head and what waits; from then on the call's bytes come here. `held` was read before. */
  begin(held: readonly Uint8Array[]): void {
    const { call, reply, line } = this.#parts
    const { pieces, read, ended, failure } = call.handOver(this)
    this.#heardAt = this.#beatAt = performance.now()
    this.#writer.open(reply.status, reply.headers)
    if (held.length > 0 || pieces.length > 0 || read === null) {
      for (const piece of held) this.#feed(piece)
      for (const piece of pieces) this.#feed(piece)
      if (read === null) return this.#beganWithout(ended, failure)
      this.#passed.startRead()
    }
    // What waited is framed by us, and what came in this read with it.
    this.#aligned = read.whole
    this.#inStep = read.whole && held.length === 0 && pieces.length === 0
    this.take(read.bytes, call.framing!, read.last)
    if (this.#over) return
    this.#writer.began()
    if (line.gone) return this.clientGone()
    this.#arm()
  }

  take(bytes: Buffer, framing: BodyFraming, last: boolean): void {
    if (this.#over) return
    this.#heardAt = performance.now()
    const heldBefore = this.#tap.heldBytes
    this.#feedAll(bytes, framing.ranges)
    if (last) this.#tap.end(this.#passed.emit)
    if (last && this.#undone()) return this.#endedEarly(bytes, framing)
    this.#write(bytes, framing, { last, heldBefore })
    this.#passed.clear()
    this.#aligned = framing.aligned
    if (last) return this.#settle('complete', null)
    if (this.#writer.full) this.#parts.call.pause()
  }

  broken(reason: unknown): void {
    if (this.#over) return
    if (!(reason instanceof OriginError)) return this.clientGone()
    this.#cut(
      reason,
      this.#parts.sse && this.#tap.atBoundary && this.#writer.atBoundary(this.#parts.call.framing!, this.#inStep),
    )
  }

  clientGone(): void {
    if (this.#over) return
    this.#settle('client_gone', null)
    this.#parts.call.stop(new OriginError('reset', 'the client is gone'))
    this.#writer.cut(null)
  }

  /** Silence is looked at when one of its limits may be reached: nothing is set or moved for a byte that comes. */
  due(): void {
    if (this.#over || this.#writer.full) return
    const { call, reply } = this.#parts
    const now = performance.now()
    if (!this.#started && call.firstByteInMs <= 0)
      return call.stop(new OriginError('first_byte_timeout', 'no byte of the body within the limit'))
    if (this.#started && reply.idleMs > 0 && now - this.#heardAt >= reply.idleMs) {
      return call.stop(new OriginError('idle_timeout', `no byte for ${reply.idleMs} ms`))
    }
    if (this.#heartbeatMs > 0 && now - Math.max(this.#heardAt, this.#beatAt) >= this.#heartbeatMs) this.#beat(now)
    if (!this.#over) this.#arm()
  }

  get #heartbeatMs(): number {
    return this.#parts.sse ? this.#parts.reply.heartbeatMs : 0
  }

  /** `tell`: there is room for one last event. */
  #cut({ failure }: OriginError, tell: boolean): void {
    this.#settle('engine_cut', failure)
    this.#writer.cut(tell ? this.#parts.reply.cutEvent(failure) : null)
  }

  /** When the next limit may be reached. A slow client's silence is its own. */
  #arm(): void {
    if (this.#writer.full) return this.#parts.call.pause()
    const { call, reply } = this.#parts
    const now = performance.now()
    let inMs = this.#started ? Infinity : call.firstByteInMs
    if (this.#started && reply.idleMs > 0) inMs = this.#heardAt + reply.idleMs - now
    if (this.#heartbeatMs > 0) inMs = Math.min(inMs, Math.max(this.#heardAt, this.#beatAt) + this.#heartbeatMs - now)
    if (inMs < Infinity) call.wakeIn(inMs)
  }

  #drained(): void {
    if (this.#over) return
    this.#parts.call.resume()
    this.#heardAt = performance.now()
    this.#arm()
  }

  /** A comment in the middle of an event, or of a chunk, would break it. */
  #beat(now: number): void {
    this.#beatAt = now
    if (this.#tap.atBoundary && this.#writer.atBoundary(this.#parts.call.framing!, this.#inStep))
      this.#writer.rebuilt([PING], false)
  }

  /** Nothing comes in this tick: what waited goes out with the head, and so does the end where it is known. */
  #beganWithout(ended: boolean, failure: unknown): void {
    const { call, line } = this.#parts
    if (ended) this.#tap.end(this.#passed.emit)
    const undone = ended && this.#undone()
    this.#inStep = this.#aligned = call.framing!.aligned
    this.#writer.rebuilt(this.#passed.pieces, ended && !undone)
    this.#passed.clear()
    if (undone) return this.broken(ENDED_EARLY)
    if (ended) return this.#settle('complete', null)
    if (failure !== null) return this.broken(failure)
    if (line.gone) return this.clientGone()
    this.#arm()
  }

  /** As it came where nothing of it was kept back or left out, and the client stands where the engine stands. */
  #write(
    bytes: Buffer,
    framing: BodyFraming,
    { last, heldBefore }: { readonly last: boolean; readonly heldBefore: number },
  ): void {
    const { hideUsage } = this.#parts.reply
    // Where an event may have to be left out: whole chunks only.
    const raw =
      framing.kind === 'length' ||
      (this.#writer.asFramed && this.#inStep && (!hideUsage || (heldBefore === 0 && (framing.aligned || last))))
    if (raw && this.#passed.all) return this.#writer.raw(bytes, last)
    const kept =
      raw && framing.chunks?.hasTrailers === false ? this.#passed.withoutDropped(bytes, framing.ranges) : null
    if (kept !== null) return this.#writer.parts(kept, last)
    this.#writer.rebuilt(this.#passed.piecesOf(bytes, framing.ranges), last)
    this.#inStep = framing.aligned
  }

  /** The engine's end was clean and said nothing of being complete. */
  #undone(): boolean {
    const { sse, reply } = this.#parts
    return sse && reply.observe && reply.endsWithDone === true && !this.#tap.done
  }

  /** All that came passes, but for the end. */
  #endedEarly(bytes: Buffer, framing: BodyFraming): void {
    const { ranges } = framing
    if (this.#writer.asFramed && this.#inStep && this.#passed.all && ranges.length > 0)
      this.#writer.raw(bytes.subarray(0, ranges.at(-1)! + CRLF.length), false)
    else if (!this.#inStep || this.#aligned) this.#writer.rebuilt(this.#passed.piecesOf(bytes, ranges), false)
    // In the middle of a chunk there is no place for a word of ours.
    else return this.#cut(ENDED_EARLY, false)
    this.#cut(ENDED_EARLY, this.#tap.atBoundary)
  }

  #feedAll(bytes: Buffer, ranges: readonly number[]): void {
    let usageAt = this.#observed && this.#parts.sse ? bytes.indexOf(USAGE) : -1
    for (let i = 0; i < ranges.length; i += 2) {
      const from = ranges[i]!
      const to = ranges[i + 1]!
      if (usageAt >= 0 && usageAt < from) usageAt = bytes.indexOf(USAGE, from)
      const spoken = usageAt >= 0 && usageAt < to
      if (this.#observed && !spoken && this.#tap.takesWhole(bytes, from, to)) {
        this.#note(bytes, from, to)
        this.#passed.whole()
      } else {
        const clean = this.#tap.heldBytes === 0
        this.#feed(bytes.subarray(from, to))
        this.#passed.taken(to - from, clean && this.#tap.heldBytes === 0)
      }
    }
  }

  /** Through the tap, piece by piece. */
  #feed(payload: Uint8Array): void {
    if (this.#observed) this.#tap.take(payload, this.#passed.emit)
    else this.#passed.emit(payload)
    this.#note(payload, 0, payload.length)
  }

  #note(payload: Uint8Array, from: number, to: number): void {
    const { reply, sse } = this.#parts
    this.#bytes += to - from
    if (!this.#started && (!sse || (this.#prelude ??= new LeadingComments()).hasContent(payload, from, to))) {
      this.#started = true
      reply.onFirstByte()
    }
    // A copy: the connection reads on into the same memory.
    if (this.#finder?.looks === true) this.#finder.take(new Uint8Array(payload.subarray(from, to)))
    const { eventStep } = reply
    if (eventStep <= 0 || this.#tap.events < (this.#steps + 1) * eventStep) return
    this.#steps = Math.floor(this.#tap.events / eventStep)
    reply.onEvents(this.#tap.events)
  }

  #settle(end: RelayResult['end'], failure: AttemptFailure | null): void {
    if (this.#over) return
    this.#over = true
    const { call, reply } = this.#parts
    call.release()
    reply.settled({ end, failure, events: this.#tap.events, usage: this.#tap.usage(), bytes: this.#bytes })
  }
}
