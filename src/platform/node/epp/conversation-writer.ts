/** Answers of one conversation: heads, bodies in pieces, and refusals. */
import { sizeOf } from '../../../core/bytes.ts'
import type { EngineTarget } from '../../../ports/engine-target.ts'
import type { GrpcCall } from '../grpc/grpc-call.ts'
import { GRPC } from '../grpc/grpc-status.ts'
import {
  bodyAnswer,
  type HeaderChanges,
  headersAnswer,
  immediateAnswer,
  streamedBody,
  trailersAnswer,
} from '../grpc/processing-response.ts'
import type { BodyModes } from './body-modes.ts'
import { DESTINATION, destinationText, LB_METADATA } from './destination.ts'
import { type HeaderMap, staysInResponse } from './header-map.ts'
import type { BodyOutlet } from './proxied-relay.ts'

/** Bytes of one piece of a body. Proxies accept 64 KiB with its message around it; others send this size, too. */
const PIECE_BYTES = 62_000

const NO_PIECES: readonly Uint8Array[] = []

/** Headers of the framing, which the proxy sets. */
const FRAMING: ReadonlySet<string> = new Set(['content-length', 'transfer-encoding', 'connection'])

interface PlacedAnswer {
  readonly target: EngineTarget
  readonly fallbacks: readonly EngineTarget[]
  readonly changes: HeaderChanges
  readonly body: readonly Uint8Array[] | null
  /** The body is the client's, byte by byte. */
  readonly isUnchanged: boolean
  readonly isDuplex: boolean
}

export class ConversationWriter implements BodyOutlet {
  readonly #call: GrpcCall
  hasRequestBody = true
  hasRequestTrailers = false
  hasResponseBody = true
  hasResponseTrailers = false
  #collected: Uint8Array[] = []
  /** Outlet for bodies whose messages are answered one by one. */
  readonly collector: BodyOutlet = {
    write: (pieces) => void this.#collected.push(...pieces),
    truncate: () => this.truncate(),
    isFull: false,
  }

  constructor(call: GrpcCall) {
    this.#call = call
  }

  get isFull(): boolean {
    return this.#call.isFull
  }

  /** Names the engine, and returns the body. */
  placed({ target, fallbacks, changes, body, isUnchanged, isDuplex }: PlacedAnswer): void {
    const text = destinationText(target, fallbacks)
    const metadata = { namespace: LB_METADATA, name: DESTINATION, text }
    const remove = changes.remove.filter((name) => name !== DESTINATION)
    const all = { set: [DESTINATION, text, ...changes.set], remove }
    if (!this.hasRequestBody) return this.#call.send(headersAnswer('request_headers', all, metadata))
    if (isDuplex) {
      this.#call.together(() => {
        this.#call.send(headersAnswer('request_headers', all, metadata))
        this.#pieces('request_body', body ?? NO_PIECES, !this.hasRequestTrailers)
        if (this.hasRequestTrailers) this.#call.send(trailersAnswer('request_trailers'))
      })
    } else if (isUnchanged) this.#call.send(bodyAnswer('request_body', null, all, metadata))
    else {
      const pieces = body ?? NO_PIECES
      const size = sizeOf(pieces)
      const sized = { ...all, set: [...all.set, 'content-length', String(size)] }
      this.#call.send(bodyAnswer('request_body', size, sized, metadata), pieces)
    }
  }

  /** Answers the head of a response: its headers become the `wanted` ones. */
  responseHead(head: HeaderMap, wanted: readonly string[]): void {
    this.#call.send(headersAnswer('response_headers', head.changesTo(wanted, staysInResponse)))
  }

  write(pieces: readonly Uint8Array[], last: boolean): void {
    if (this.hasResponseBody) this.#pieces('response_body', pieces, last && !this.hasResponseTrailers)
  }

  truncate(): void {
    this.#call.end(GRPC.unavailable, 'The engine did not complete the response.')
  }

  /** Answers one message of a body with what `take` writes of it. */
  collect(message: Uint8Array, take: () => void): void {
    this.#collected = []
    take()
    const pieces = this.#collected
    const isUnchanged = pieces.length === 1 && pieces[0] === message
    if (isUnchanged || message.length === 0) return this.#call.send(bodyAnswer('response_body', null))
    this.#call.send(bodyAnswer('response_body', sizeOf(pieces)), pieces)
  }

  /** Returns a body that the gateway does not read. */
  returnBody(body: Uint8Array, isLast: boolean, { response }: BodyModes): void {
    if (response === 'duplex') this.#pieces('response_body', [body], isLast)
    else this.#call.send(bodyAnswer('response_body', null))
  }

  /** Writes the body of a response that a step of the gateway changes. */
  async pipe(response: Response): Promise<void> {
    try {
      for await (const piece of response.body ?? []) this.write([piece], false)
      this.write(NO_PIECES, true)
    } catch {
      // Its end was reported, and an error event was sent if there was room for one.
      this.truncate()
    }
  }

  /** Sends a response of the gateway itself, and ends the call. */
  async refuse(response: Response): Promise<void> {
    const headers: string[] = []
    response.headers.forEach((value, name) => {
      if (!FRAMING.has(name)) headers.push(name, value)
    })
    const body = new Uint8Array(await response.arrayBuffer())
    this.#call.send(immediateAnswer({ status: response.status, headers, body, details: 'firstlight' }))
    this.#call.end(GRPC.ok)
  }

  /** Cuts a body into messages. `last`: its end follows. */
  #pieces(kind: 'request_body' | 'response_body', pieces: readonly Uint8Array[], last: boolean): void {
    let group: Uint8Array[] = []
    let size = 0
    for (const piece of pieces) {
      for (let at = 0; at < piece.length;) {
        if (size === PIECE_BYTES) {
          this.#call.send(streamedBody(kind, size, false), group)
          group = []
          size = 0
        }
        const taken = Math.min(PIECE_BYTES - size, piece.length - at)
        group.push(taken === piece.length ? piece : piece.subarray(at, at + taken))
        size += taken
        at += taken
      }
    }
    if (size > 0 || last) this.#call.send(streamedBody(kind, size, last), group)
  }
}
