/**
 * Writes one response to the client: in the engine's chunk framing, or in chunks of its own where bytes were withheld
 * or added.
 */
import type { BodyFraming } from './body-framing.ts'
import { chunkOf, type ChunkParser, CRLF, hasBytes, LAST_CHUNK } from './chunked.ts'
import type { ResponseWriter } from './response-writer.ts'

export class ClientWriter {
  readonly #response: ResponseWriter
  readonly #framing: BodyFraming
  readonly #source: { drained(): void }
  /** The client gets chunk framing from here; false: the response writer frames the bytes, or the close ends them. */
  #isRechunked = false
  #waiting = false

  /** @param source is called when the client has taken what was written, after it had not */
  constructor(writer: ResponseWriter, framing: BodyFraming, source: { drained(): void }) {
    this.#response = writer
    this.#framing = framing
    this.#source = source
  }

  /** The client has not taken what was written. */
  get full(): boolean {
    return this.#waiting
  }

  /** Bytes may go to the client as the engine framed them. */
  get asFramed(): boolean {
    return this.#isRechunked || this.#framing.chunks === null
  }

  /** Memory given to the last write is still in use. */
  get holds(): boolean {
    return this.#response.holds
  }

  open(status: number, headers: readonly string[]): void {
    const { kind, length } = this.#framing
    this.#isRechunked = kind === 'chunked' && this.#response.takesChunks
    if (this.#isRechunked) this.#response.head(status, headers, 'chunked')
    else this.#response.head(status, headers, kind === 'length' ? length : 'unframed')
  }

  /** Bytes as the engine framed them, without trailers and without blanks behind sizes. */
  raw(bytes: Buffer, last: boolean): void {
    const { chunks } = this.#framing
    const isClean = chunks === null || (!chunks.hasTrailers && chunks.blanks.length === 0)
    this.parts(this.#isRechunked && !isClean ? cleaned(bytes, chunks, last) : [bytes], last)
  }

  /** Parts of the engine's framing, without trailers and without blanks behind sizes. */
  parts(parts: readonly Uint8Array[], last: boolean): void {
    this.#write(parts, last)
    if (last) this.#response.end()
  }

  /** Sends the head and the bytes written with it. */
  began(): void {
    this.#response.flush()
  }

  /** Payload in a chunk of its own. */
  rebuilt(pieces: readonly Uint8Array[], last: boolean): void {
    const parts: Uint8Array[] = []
    const filled = pieces.filter((piece) => piece.length > 0)
    if (filled.length > 0) parts.push(...(this.#isRechunked ? chunkOf(filled) : filled))
    if (last && this.#isRechunked) parts.push(LAST_CHUNK)
    this.#write(parts, last)
    if (last) this.#response.end()
    else this.began()
  }

  /** The client has received whole chunks only. */
  atBoundary(framing: BodyFraming, inStep: boolean): boolean {
    return !this.#isRechunked || !inStep || framing.aligned
  }

  /** Ends a broken response after `event`, without the last chunk: the client sees that it is truncated. */
  truncate(event: Uint8Array | null): void {
    if (event === null || this.#response.gone) return this.#response.destroy()
    this.rebuilt([event], false)
    this.#response.truncate()
  }

  #write(parts: readonly Uint8Array[], last: boolean): void {
    if (!hasBytes(parts)) return
    const flowing = this.#response.write(parts, last)
    if (flowing || this.#waiting || last) return
    this.#waiting = true
    this.#response.drained(() => {
      this.#waiting = false
      this.#source.drained()
    })
  }
}

function cleaned(
  bytes: Buffer,
  { hasTrailers, afterLastChunk, blanks }: ChunkParser,
  last: boolean,
): readonly Uint8Array[] {
  const end = hasTrailers ? afterLastChunk : bytes.length
  const parts: Uint8Array[] = []
  let from = 0
  for (const blank of blanks) {
    if (blank >= end) break
    parts.push(bytes.subarray(from, blank))
    from = blank + 1
  }
  parts.push(bytes.subarray(from, end))
  // The message ends after the last chunk's line.
  if (hasTrailers && last) parts.push(CRLF)
  return parts
}
