import type { ClientRequest, IncomingMessage } from 'node:http'
import type { ByteSource } from '../../origin/pulled-answer.ts'
import { originErrorOf } from './origin-errors.ts'

/**
 * An answer's body, pulled. Node reads on only while its own buffer has room, so a client that does not read
 * holds its engine back.
 */
export class MessageSource implements ByteSource {
  readonly #outgoing: ClientRequest
  readonly #message: IncomingMessage
  #waiting: { resolve(chunk: Uint8Array | null): void; reject(error: unknown): void } | null = null
  #ended = false
  #failure: unknown = null

  /** `host` is for the log. */
  constructor(outgoing: ClientRequest, message: IncomingMessage, host: string) {
    this.#outgoing = outgoing
    this.#message = message
    const fail = (error: unknown) => this.#fail(originErrorOf(error, true, host))
    message.on('readable', () => this.#serve())
    message.on('end', () => {
      this.#ended = true
      this.#serve()
    })
    message.on('error', fail)
    // A malformed chunk is told to the request, not to the message.
    outgoing.on('error', fail)
    message.on('close', () => fail(new Error('closed before the end')))
  }

  read(): Promise<Uint8Array | null> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject }
      this.#serve()
    })
  }

  stop(reason: unknown): void {
    if (this.#ended || this.#failure !== null) return
    this.#fail(reason ?? new Error('stopped'))
    this.#outgoing.destroy()
  }

  #serve(): void {
    const waiting = this.#waiting
    if (waiting === null) return
    // What has come is passed on even when the engine broke after it.
    const chunk = this.#message.read() as Uint8Array | null
    if (chunk !== null) {
      this.#waiting = null
      return waiting.resolve(chunk)
    }
    if (this.#ended) {
      this.#waiting = null
      return waiting.resolve(null)
    }
    if (this.#failure === null) return
    this.#waiting = null
    waiting.reject(this.#failure)
  }

  #fail(error: unknown): void {
    if (this.#ended || this.#failure !== null) return
    this.#failure = error
    this.#serve()
  }
}
