/** One call of a gRPC client: its messages, the answers, and one end. */
import type { ServerHttp2Stream } from 'node:http2'
import { MalformedMessage } from './field-reader.ts'
import { FrameReader } from './frame-reader.ts'
import { GRPC, GrpcError } from './grpc-status.ts'

/** Handles the messages of one call. */
export interface CallHandler {
  /** A GrpcError or MalformedMessage that it throws ends the call. */
  message(bytes: Buffer): void
  /** The client sends no more messages. */
  halfClosed(): void
  /** The call has ended, by whichever side. Called exactly once, after which the call sends nothing. */
  closed(): void
}

interface CallParts {
  readonly stream: ServerHttp2Stream
  readonly messageBytes: number
  /** Called with an error that is neither of the client nor expected. */
  readonly failed: (error: unknown) => void
}

const NO_PIECES: readonly Uint8Array[] = []

/** Frames up to this size are joined: a write of its own costs more than the copy. */
const JOINED_BYTES = 8 * 1024

export class GrpcCall {
  readonly #parts: CallParts
  readonly #frames: FrameReader
  #handler: CallHandler | null = null
  #isEnded = false
  #isClosed = false

  constructor(parts: CallParts) {
    this.#parts = parts
    this.#frames = new FrameReader(parts.messageBytes, (message) => {
      if (!this.#isEnded) this.#handler!.message(message)
    })
  }

  /** Answers the head and passes messages to the handler. */
  open(handler: CallHandler): void {
    const { stream } = this.#parts
    this.#handler = handler
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
    stream.on('data', (chunk: Buffer) => this.#guard(() => this.#take(chunk)))
    stream.on('end', () => this.#guard(() => this.#halfClosed()))
    stream.on('drain', () => stream.resume())
    stream.on('close', () => this.#close())
  }

  /** Sends one message: `frame` begins it, and `pieces` follow. */
  send(frame: Buffer, pieces: readonly Uint8Array[] = NO_PIECES): void {
    const { stream } = this.#parts
    if (this.#isEnded) return
    let size = frame.length
    for (const { length } of pieces) size += length
    if (pieces.length === 0) stream.write(frame)
    else if (size <= JOINED_BYTES) stream.write(Buffer.concat([frame, ...pieces], size))
    else {
      stream.cork()
      stream.write(frame)
      for (const piece of pieces) stream.write(piece)
      stream.uncork()
    }
  }

  /** The client reads slower than messages are sent. */
  get isFull(): boolean {
    return this.#parts.stream.writableNeedDrain
  }

  /** The connection has taken everything that was sent: its memory is not read any more. */
  get isWritten(): boolean {
    return this.#parts.stream.writableLength === 0
  }

  /** Runs a step whose messages go out in one write. */
  together(step: () => void): void {
    const { stream } = this.#parts
    stream.cork()
    step()
    stream.uncork()
  }

  /** Ends the call. Has effect once. */
  end(status: number, message = ''): void {
    if (this.#isEnded) return
    this.#isEnded = true
    const { stream } = this.#parts
    stream.once('wantTrailers', () => {
      stream.sendTrailers(trailersOf(status, message))
      // A client that has not ended its side would keep the stream open.
      setImmediate(() => stream.close())
    })
    stream.end()
    // What the client still sends is discarded.
    stream.resume()
  }

  /** Ends the call with the status of an error. */
  fail(error: unknown): void {
    if (error instanceof GrpcError) return this.end(error.status, error.message)
    if (error instanceof MalformedMessage)
      return this.end(GRPC.invalidArgument, `The message is malformed: ${error.message}.`)
    this.#parts.failed(error)
    this.end(GRPC.internal, 'The request failed unexpectedly.')
  }

  #take(chunk: Buffer): void {
    if (this.#isEnded) return
    this.#frames.take(chunk)
    if (this.isFull) this.#parts.stream.pause()
  }

  #halfClosed(): void {
    if (this.#isEnded) return
    if (!this.#frames.isBetween) throw new MalformedMessage('the last message ends early')
    this.#handler!.halfClosed()
  }

  #guard(step: () => void): void {
    try {
      step()
    } catch (error) {
      this.fail(error)
    }
  }

  #close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#isEnded = true
    this.#handler!.closed()
  }
}

/** gRPC allows printable ASCII without `%` in messages. */
const trailersOf = (status: number, message: string): Record<string, string> => ({
  'grpc-status': String(status),
  ...(message === '' ? {} : { 'grpc-message': message.replaceAll(/[^ -$&-~]/g, (unit) => encodeURIComponent(unit)) }),
})
