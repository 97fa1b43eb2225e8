/** A request of a plain connection as the door reads it, without the web objects that would be made for it. */
import type { HeaderSource } from '../../../origin/headers.ts'
import type { GoneSignal } from '../../../ports.ts'
import type { PlainHead } from './plain-head.ts'

/** Memory for a body before its first byte has come; it grows from there. */
const FIRST_BYTES = 256 * 1024
/** Memory from this size on is given back once nobody reads it any more: for less it does not pay. */
const GIVEN_BACK_BYTES = 16 * 1024
const NO_BYTES = Buffer.alloc(0)
const BROKEN_OFF = 'the client closed the connection before its request was complete'

/** Says that the client is gone; made for every request, where an AbortController would be dear. */
class ClientGone implements GoneSignal {
  aborted = false
  reason: unknown = undefined
  #listeners: (() => void)[] = []

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.push(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    const at = this.#listeners.indexOf(listener)
    if (at >= 0) this.#listeners.splice(at, 1)
  }

  abort(reason: Error): void {
    this.aborted = true
    this.reason = reason
    // Those who hear it stop listening, in the middle of this.
    const listeners = this.#listeners
    this.#listeners = []
    for (const listener of listeners) listener()
  }
}

/** A `DoorRequest` of the kind that collects its body itself. */
export class PlainRequest {
  readonly method = 'POST'
  /** Path and query. */
  readonly url: string
  readonly headers: HeaderSource
  readonly signal = new ClientGone()
  readonly #head: PlainHead
  /** Bytes of the body still to come. */
  missing: number
  #body: Buffer = NO_BYTES
  #filled = 0
  /** The body lies in memory made for it alone; null: in the one read it came in, as others may. */
  #own: Buffer | null = null
  /** Nobody wants the body: what comes of it is let go. */
  #unwanted = false
  #collected: { resolve(body: Uint8Array | null): void; reject(error: Error): void } | null = null

  constructor(head: PlainHead) {
    this.#head = head
    this.url = head.url
    this.headers = head.headers
    this.missing = head.length
  }

  get close(): boolean {
    return this.#head.close
  }

  /** Bytes that came. Answers with how many of them were the body's. Reads are fresh memory each: it may be kept, or is given back. */
  take(bytes: Buffer): number {
    const taken = Math.min(bytes.length, this.missing)
    if (taken === 0) return 0
    if (!this.#unwanted) this.#put(taken === bytes.length ? bytes : bytes.subarray(0, taken))
    this.missing -= taken
    if (this.missing === 0) this.#settle()
    return taken
  }

  /** null: it is longer than that; what is left of it stays unread. Rejects when the client breaks off. */
  collect(limitBytes: number): Promise<Uint8Array | null> {
    if (this.#head.length > limitBytes) {
      this.letGo()
      return Promise.resolve(null)
    }
    return new Promise((resolve, reject) => {
      this.#collected = { resolve, reject }
      if (this.signal.aborted) reject(new Error(BROKEN_OFF))
      else if (this.missing === 0) this.#settle()
    })
  }

  /** The client is gone. */
  leave(): void {
    if (this.signal.aborted) return
    this.#collected?.reject(new Error(BROKEN_OFF))
    this.#collected = null
    this.signal.abort(new Error('the client closed the connection'))
  }

  /** Nobody reads on. */
  letGo(): void {
    this.#unwanted = true
    this.#body = NO_BYTES
    this.#collected = null
  }

  giveBack(): void {
    if (this.#own !== null) giveBack(this.#own)
    this.#own = null
  }

  #put(bytes: Buffer): void {
    const { length } = bytes
    if (this.#filled === 0 && length === this.#head.length) this.#body = bytes
    else {
      if (this.#filled + length > this.#body.length) this.#grow(this.#filled + length)
      bytes.copy(this.#body, this.#filled)
      giveBack(bytes)
    }
    this.#filled += length
  }

  /** A length that was declared costs nothing before it comes. */
  #grow(needed: number): void {
    const grown = Buffer.allocUnsafeSlow(Math.min(this.#head.length, Math.max(FIRST_BYTES, needed, 2 * this.#body.length)))
    this.#body.copy(grown, 0, 0, this.#filled)
    this.giveBack()
    this.#body = this.#own = grown
  }

  #settle(): void {
    const collected = this.#collected
    if (collected === null) return
    this.#collected = null
    const body = this.#body
    this.#body = NO_BYTES
    collected.resolve(body)
  }
}

/**
 * Ends bytes that nobody will look at any more: their memory goes now, not with the next collection. V8 counts what lies
 * outside its heap, and for every 64 MB of it collects everything, which takes as long as ten requests.
 */
function giveBack({ buffer, length }: Buffer): void {
  if (length >= GIVEN_BACK_BYTES && length === buffer.byteLength) (buffer as ArrayBuffer).transfer(0)
}
