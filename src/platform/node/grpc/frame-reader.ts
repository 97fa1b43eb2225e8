/** Splits the bytes of a call into its messages. */
import { GRPC, GrpcError } from './grpc-status.ts'

/** A flag for compression and the length. */
export const PREFIX_BYTES = 5

export class FrameReader {
  readonly #limitBytes: number
  readonly #onMessage: (message: Buffer) => void
  /** Parts of an incomplete message with its prefix, joined once when it is complete. */
  #parts: Buffer[] = []
  #held = 0
  /** Bytes of the incomplete message with its prefix; until the prefix is complete, that of the prefix. */
  #needed = PREFIX_BYTES

  constructor(limitBytes: number, onMessage: (message: Buffer) => void) {
    this.#limitBytes = limitBytes
    this.#onMessage = onMessage
  }

  /** Nothing of an incomplete message is held. */
  get isBetween(): boolean {
    return this.#held === 0
  }

  /** Takes the next bytes, whose memory messages may keep. Throws a GrpcError for a frame that is not accepted. */
  take(chunk: Buffer): void {
    let rest = this.#held === 0 ? chunk : this.#complete(chunk)
    while (rest.length >= PREFIX_BYTES) {
      const size = this.#sizeOf(rest)
      if (rest.length < size) break
      this.#onMessage(rest.subarray(PREFIX_BYTES, size))
      rest = rest.subarray(size)
    }
    if (rest.length === 0) return
    this.#needed = rest.length < PREFIX_BYTES ? PREFIX_BYTES : this.#sizeOf(rest)
    this.#parts.push(rest)
    this.#held = rest.length
  }

  /** Adds bytes to the message that is held. Returns what may begin the next message. */
  #complete(chunk: Buffer): Buffer {
    let rest = chunk
    for (;;) {
      const taken = Math.min(this.#needed - this.#held, rest.length)
      this.#parts.push(rest.subarray(0, taken))
      this.#held += taken
      rest = rest.subarray(taken)
      if (this.#held < this.#needed) return rest
      const frame = Buffer.concat(this.#parts, this.#held)
      this.#needed = this.#sizeOf(frame)
      if (this.#held === this.#needed) {
        this.#forget()
        this.#onMessage(frame.subarray(PREFIX_BYTES))
        return rest
      }
      this.#parts = [frame]
    }
  }

  #forget(): void {
    this.#parts = []
    this.#held = 0
    this.#needed = PREFIX_BYTES
  }

  /** Bytes of the frame that begins here, prefix included. */
  #sizeOf(frame: Buffer): number {
    if (frame[0] !== 0)
      throw new GrpcError(GRPC.unimplemented, 'Compressed messages are not supported. Send them uncompressed.')
    const length = frame.readUInt32BE(1)
    if (length > this.#limitBytes) {
      const problem = `The message has ${length} bytes; the limit is ${this.#limitBytes}.`
      throw new GrpcError(GRPC.resourceExhausted, `${problem} Raise limits.body_bytes or send the body in pieces.`)
    }
    return PREFIX_BYTES + length
  }
}
