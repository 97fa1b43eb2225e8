/**
 * Passes an answer past the web streams: the engine's bytes go to the client's socket in the tick they were
 * read, framing and all. Framing is rebuilt only where an event was left out, and after bytes were held back,
 * until engine and client stand at the same chunk boundary again.
 */
import type { ServerResponse } from 'node:http'
import type { AttemptFailure } from '../../../core/cluster/contract.ts'
import { SilenceTimer } from '../../../origin/silence.ts'
import { openTap, type Tap } from '../../../origin/tap.ts'
import { ResponseIdFinder } from '../../../origin/response-id.ts'
import { Prelude } from '../../../origin/events.ts'
import { OriginError, type PassEnd, type Reply } from '../../../ports.ts'
import type { BodyFraming } from './body-framing.ts'
import type { BodySink, SocketSource } from './socket-source.ts'
import { ClientWriter } from './client-writer.ts'

export interface RawPassParts {
  readonly reply: Reply
  readonly sse: boolean
  readonly source: SocketSource
  readonly outgoing: ServerResponse
  readonly now: () => number
  /** Lets go of timers and listeners of the answer. */
  readonly done: () => void
}

const ENDED_EARLY = new OriginError('reset', 'the stream ended without [DONE]')
const PING = Buffer.from(': ping\n\n')

export class RawPass implements BodySink {
  readonly #parts: RawPassParts
  readonly #writer: ClientWriter
  readonly #tap: Tap
  readonly #prelude = new Prelude()
  readonly #finder: ResponseIdFinder | null
  readonly #idle: SilenceTimer
  readonly #heartbeat: SilenceTimer
  readonly #pieces: Uint8Array[] = []
  readonly #keepPiece = (piece: Uint8Array): void => void this.#pieces.push(piece)
  readonly #onClose = (): void => this.clientGone()
  #inStep = true
  #started = false
  #over = false
  #bytes = 0
  #steps = 0

  constructor(parts: RawPassParts) {
    this.#parts = parts
    const { reply, source, outgoing } = parts
    this.#writer = new ClientWriter(outgoing, source.framing!, () => this.#drained())
    this.#tap = openTap(parts.sse, reply.hideUsage)
    this.#finder = reply.findResponseId === true ? new ResponseIdFinder() : null
    this.#idle = new SilenceTimer(parts.now, reply.idleMs, () =>
      source.stop(new OriginError('idle_timeout', `no byte for ${reply.idleMs} ms`)),
    )
    this.#heartbeat = new SilenceTimer(parts.now, parts.sse ? reply.heartbeatMs : 0, () => this.#beat())
    outgoing.on('close', this.#onClose)
  }

  get holds(): boolean {
    return this.#writer.holds || this.#tap.heldBytes > 0
  }

  /** Writes head and what waits; from then on the source's bytes come here. `held` was read before. */
  begin(held: readonly Uint8Array[]): void {
    const { source, reply, outgoing } = this.#parts
    const { waiting, ended, failure } = source.handOver(this)
    this.#writer.open(reply.status, reply.headers)
    for (const piece of held) this.#feed(piece)
    for (const piece of waiting) this.#feed(piece)
    if (ended) this.#tap.end(this.#keepPiece)
    const { framing } = source
    this.#inStep = framing!.aligned
    const undone = ended && this.#undone()
    this.#writer.rebuilt(this.#pieces, ended && !undone)
    this.#pieces.length = 0
    if (undone) return this.broken(ENDED_EARLY)
    if (ended) return this.#finish()
    if (failure !== null) return this.broken(failure)
    if (outgoing.destroyed) return this.clientGone()
    this.#listen()
  }

  take(bytes: Buffer, framing: BodyFraming, last: boolean): void {
    if (this.#over) return
    this.#idle.heard()
    const before = this.#bytes
    const heldBefore = this.#tap.heldBytes
    const { ranges } = framing
    for (let i = 0; i < ranges.length; i += 2) this.#feed(bytes.subarray(ranges[i]!, ranges[i + 1]!))
    if (last) this.#tap.end(this.#keepPiece)
    if (last && this.#undone()) return this.#endedEarly()
    if (this.#raw(framing, this.#bytes - before, heldBefore)) this.#writer.raw(bytes, last)
    else {
      this.#writer.rebuilt(this.#pieces, last)
      this.#inStep = framing.aligned
    }
    this.#pieces.length = 0
    if (last) this.#finish()
    else this.#listen()
  }

  /** The engine's end was clean and said nothing of being complete. */
  #undone(): boolean {
    const { sse, reply } = this.#parts
    return sse && reply.observe && reply.endsWithDone === true && !this.#tap.done
  }

  #endedEarly(): void {
    this.#writer.rebuilt(this.#pieces, false)
    this.#inStep = false
    this.broken(ENDED_EARLY)
  }

  broken(reason: unknown): void {
    if (this.#over) return
    if (!(reason instanceof OriginError)) return this.clientGone()
    const whole = this.#parts.sse && this.#tap.atBoundary && this.#writer.atBoundary(this.#parts.source.framing!, this.#inStep)
    this.#settle('engine_cut', reason.failure)
    this.#writer.cut(whole ? this.#parts.reply.cutEvent(reason.failure) : null)
  }

  clientGone(): void {
    if (this.#over) return
    this.#settle('client_gone', null)
    this.#parts.source.stop(new OriginError('reset', 'the client is gone'))
    this.#writer.cut(null)
  }

  /** May these bytes go as they are? Only where the client stands where the engine stands, and nothing was kept back or left out. */
  #raw(framing: BodyFraming, payloadBytes: number, heldBefore: number): boolean {
    if (framing.chunks === null) return true
    if (!this.#inStep) return false
    if (!this.#parts.reply.hideUsage) return true
    // Whole chunks only: the next event may have to be left out.
    if (heldBefore > 0 || !(framing.aligned || framing.ended)) return false
    let emitted = 0
    for (const piece of this.#pieces) emitted += piece.length
    return emitted === payloadBytes
  }

  #feed(payload: Uint8Array): void {
    const { reply, sse } = this.#parts
    if (!this.#started && (!sse || this.#prelude.hasContent(payload))) {
      this.#started = true
      reply.onFirstByte()
    }
    this.#bytes += payload.length
    // A copy: the connection reads on into the same memory.
    this.#finder?.take(new Uint8Array(payload))
    if (!reply.observe && !reply.hideUsage) return void this.#pieces.push(payload)
    this.#tap.take(payload, this.#keepPiece)
    const { eventStep } = reply
    if (eventStep <= 0 || this.#tap.events < (this.#steps + 1) * eventStep) return
    this.#steps = Math.floor(this.#tap.events / eventStep)
    reply.onEvents(this.#tap.events)
  }

  /** Waits for the engine, unless the client is the slow one. */
  #listen(): void {
    if (this.#writer.full) {
      this.#parts.source.pause()
      return
    }
    if (this.#started) this.#idle.listen()
    this.#heartbeat.listen()
  }

  #drained(): void {
    if (this.#over) return
    this.#parts.source.resume()
    this.#listen()
  }

  #beat(): void {
    if (this.#over) return
    // A comment in the middle of an event, or of a chunk, would break it.
    if (this.#tap.atBoundary && this.#writer.atBoundary(this.#parts.source.framing!, this.#inStep)) this.#writer.rebuilt([PING], false)
    this.#heartbeat.listen()
  }

  #finish(): void {
    this.#settle('complete', null)
  }

  #settle(end: PassEnd['end'], failure: AttemptFailure | null): void {
    if (this.#over) return
    this.#over = true
    this.#idle.stop()
    this.#heartbeat.stop()
    this.#parts.outgoing.off('close', this.#onClose)
    this.#parts.done()
    this.#parts.reply.settled({ end, failure, events: this.#tap.events, usage: this.#tap.usage(), bytes: this.#bytes, responseId: this.#finder?.id ?? null })
  }
}
