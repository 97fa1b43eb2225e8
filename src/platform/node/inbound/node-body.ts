/**
 * Reads the body of a request that node:http has parsed. A web stream would cost some 5 µs a chunk; node:http itself
 * costs 2 µs, and parses all chunks of a 64 KiB read before anything else runs. So other clients get their turn between
 * reads, and bodies in chunks of a few bytes are refused here. `ServerRequest` reads them at no such cost.
 */
import type { IncomingMessage } from 'node:http'
import type { BodyAllocation } from '../../../body-memory.ts'
import { Failure } from '../../../failure.ts'
import { BodyBuffer } from './body-buffer.ts'

/** Memory taken with the first byte. */
const FIRST_BYTES = 16 * 1024
/** Chunks that any body may have. */
const FREE_CHUNKS = 10_000
/** Beyond them, one chunk for each of these bytes. */
const BYTES_PER_CHUNK = 32
/** Chunks after which other connections get a turn: about 4 ms. */
const CHUNKS_A_TURN = 2_000
/**
 * How long a rejected client may send unread bytes. Closed at once, the reset would destroy its response on the way.
 */
const LINGER_MS = 2_000

export class NodeBody {
  readonly #incoming: IncomingMessage
  #buffer = new BodyBuffer(FIRST_BYTES, Infinity)
  #chunks = 0
  #bytes = 0
  #tooManyChunks = false
  #stop: ((failure: Failure) => void) | null = null

  constructor(incoming: IncomingMessage) {
    this.#incoming = incoming
    // Counts for every reader, including the adapter, which discards the rest of a rejected body.
    if (incoming.headers['transfer-encoding'] !== undefined)
      incoming.once('resume', () => incoming.on('data', this.#count))
  }

  /**
   * Resolves with the body; null: it is longer than `limitBytes`. Rejects if the client disconnects, or with a
   * Failure.
   */
  collect(limitBytes: number, memory?: BodyAllocation | null): Promise<Uint8Array | null> {
    const incoming = this.#incoming
    return new Promise((resolve, reject) => {
      const onData = (bytes: Buffer): void => {
        if (this.#buffer.length + bytes.length > limitBytes) {
          end()
          this.giveBack()
          return resolve(null)
        }
        try {
          memory?.grow(bytes.length)
        } catch (failure) {
          end()
          this.giveBack()
          return reject(failure as Error)
        }
        this.#buffer.put(bytes)
      }
      const onEnd = (): void => {
        end()
        resolve(this.#buffer.bytes)
      }
      const onGone = (): void => {
        end()
        reject(new Error('the client closed the connection before its request was complete'))
      }
      const end = (): void => {
        incoming.off('data', onData).off('end', onEnd).off('close', onGone).off('error', onGone)
        this.#stop = null
        // The adapter discards the rest, up to its own limit.
        if (!incoming.complete) incoming.pause()
      }
      this.#stop = (failure) => {
        end()
        reject(failure)
      }
      if (incoming.destroyed) return onGone()
      incoming.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone)
    })
  }

  /** Frees the memory of the body, which must not be read any more. */
  giveBack(): void {
    this.#buffer.free()
  }

  readonly #count = (bytes: Buffer): void => {
    this.#bytes += bytes.length
    if (++this.#chunks > FREE_CHUNKS + this.#bytes / BYTES_PER_CHUNK) this.#refuse()
    else if (this.#chunks % CHUNKS_A_TURN === 0) this.#yield()
  }

  #yield(): void {
    const incoming = this.#incoming
    this.#pause()
    setImmediate(() => incoming.resume())
  }

  /** Pauses both: a paused request alone is read on until its buffer is full, which takes 65,536 chunks of one byte. */
  #pause(): void {
    this.#incoming.pause()
    this.#incoming.socket.pause()
  }

  #refuse(): void {
    this.#pause()
    if (this.#tooManyChunks) return
    this.#tooManyChunks = true
    const { socket } = this.#incoming
    this.#stop?.(
      new Failure(
        'body_too_large',
        `The request body has more than ${FREE_CHUNKS} chunks of less than ${BYTES_PER_CHUNK} bytes. Send ` +
          'larger chunks.',
      ),
    )
    this.giveBack()
    setTimeout(() => socket.destroy(), LINGER_MS).unref()
  }
}

/** Lets a request collect its own body. */
export function collecting(request: Request, body: NodeBody): Request {
  return Object.defineProperties(request, {
    collect: { value: (limitBytes: number, memory?: BodyAllocation | null) => body.collect(limitBytes, memory) },
    giveBack: { value: () => body.giveBack() },
  })
}
