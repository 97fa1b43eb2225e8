/** A request of node:http as the door reads it, without the web objects that would be made for it. */
import type { IncomingMessage } from 'node:http'
import type { HeaderSource } from '../../origin/headers.ts'
import type { GoneSignal } from '../../ports.ts'

/** Needs a server with `joinDuplicateHeaders`, so that values of one name are joined as `Headers` joins them. */
class IncomingHeaders implements HeaderSource {
  readonly #fields: IncomingMessage['headers']

  constructor({ headers }: IncomingMessage) {
    this.#fields = headers
  }

  get(name: string): string | null {
    const value = this.#fields[name.toLowerCase()]
    return typeof value === 'string' ? value : null
  }

  forEach(visit: (value: string, name: string) => void): void {
    for (const name in this.#fields) {
      const value = this.#fields[name]
      if (typeof value === 'string') visit(value, name)
    }
  }
}

const BROKEN_OFF = 'the client closed the connection before its request was complete'
const NO_BYTES = new Uint8Array(0)

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
    if (this.aborted) return
    this.aborted = true
    this.reason = reason
    // Those who hear it stop listening, in the middle of this.
    const listeners = this.#listeners
    this.#listeners = []
    for (const listener of listeners) listener()
  }
}

/** A `DoorRequest` of the kind that collects its body itself. */
export class IncomingRequest {
  readonly method: string
  /** Path and query. */
  readonly url: string
  readonly headers: HeaderSource
  readonly signal: GoneSignal
  readonly #incoming: IncomingMessage
  readonly #gone = new ClientGone()

  constructor(incoming: IncomingMessage) {
    this.#incoming = incoming
    this.method = incoming.method!
    this.url = incoming.url!
    this.headers = new IncomingHeaders(incoming)
    this.signal = this.#gone
  }

  /** The client is gone. */
  leave(): void {
    this.#gone.abort(new Error('the client closed the connection'))
  }

  /** null: it is longer than that; what is left of it stays unread. Rejects when the client breaks off. */
  collect(limitBytes: number): Promise<Uint8Array | null> {
    return new Promise((resolve, reject) => {
      const incoming = this.#incoming
      const parts: Buffer[] = []
      let total = 0
      const settle = (): void => {
        incoming.off('data', take).off('end', end).off('close', broken).off('error', broken)
      }
      const take = (bytes: Buffer): void => {
        total += bytes.length
        parts.push(bytes)
        if (total <= limitBytes) return
        settle()
        incoming.pause()
        resolve(null)
      }
      const end = (): void => {
        settle()
        resolve(parts.length === 0 ? NO_BYTES : parts.length === 1 ? parts[0]! : Buffer.concat(parts, total))
      }
      const broken = (): void => {
        settle()
        reject(new Error(BROKEN_OFF))
      }
      incoming.on('data', take).on('end', end).on('close', broken).on('error', broken)
    })
  }
}
