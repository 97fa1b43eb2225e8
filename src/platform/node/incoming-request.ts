/** A request of node:http as the door reads it, without the web objects that would be made for it. */
import type { IncomingMessage } from 'node:http'
import type { HeaderSource } from '../../origin/headers.ts'

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

/** A `DoorRequest` of the kind that collects its body itself. */
export class IncomingRequest {
  readonly method: string
  /** Path and query. */
  readonly url: string
  readonly headers: HeaderSource
  readonly #incoming: IncomingMessage
  #gone: AbortController | null = null
  #left = false

  constructor(incoming: IncomingMessage) {
    this.#incoming = incoming
    this.method = incoming.method!
    this.url = incoming.url!
    this.headers = new IncomingHeaders(incoming)
  }

  get signal(): AbortSignal {
    if (this.#gone === null) {
      this.#gone = new AbortController()
      if (this.#left) this.leave()
    }
    return this.#gone.signal
  }

  /** The client is gone. */
  leave(): void {
    this.#left = true
    this.#gone?.abort(new Error('the client closed the connection'))
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
