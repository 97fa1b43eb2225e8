/** A gRPC client without TLS for tests: calls with single frames, also malformed ones. */
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2'

/** A message with its prefix. */
export function grpcFrame(message: Uint8Array): Buffer {
  const prefix = Buffer.alloc(5)
  prefix.writeUInt32BE(message.length, 1)
  return Buffer.concat([prefix, message])
}

/** End of a call: the status of gRPC; null: the call was reset. */
export interface CallEnd {
  readonly status: number | null
  readonly message: string
}

/** One call. Messages of the server are in `messages`, in order. */
export class GrpcTestCall {
  readonly stream: ClientHttp2Stream
  readonly messages: Buffer[] = []
  readonly ended: Promise<CallEnd>
  /** The call has ended. */
  isEnded = false
  #held = Buffer.alloc(0)
  #trailers: Readonly<Record<string, unknown>> = {}

  constructor(session: ClientHttp2Session, path: string, onMessage: (message: Buffer) => void = () => undefined) {
    this.stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc' })
    this.stream.on('data', (chunk: Buffer) => this.#take(chunk, onMessage))
    this.stream.on('response', (headers) => {
      if (headers['grpc-status'] !== undefined) this.#trailers = headers
    })
    this.stream.on('trailers', (trailers) => void (this.#trailers = trailers))
    this.stream.on('error', () => undefined)
    this.ended = new Promise((resolve) => {
      this.stream.on('close', () => {
        this.isEnded = true
        const status = this.#trailers['grpc-status']
        resolve({
          status: status === undefined ? null : Number(status),
          message: decodeURIComponent(String(this.#trailers['grpc-message'] ?? '')),
        })
      })
    })
  }

  send(message: Uint8Array): void {
    this.stream.write(grpcFrame(message))
  }

  /** Sends bytes that need not be a frame. */
  raw(bytes: Uint8Array): void {
    this.stream.write(bytes)
  }

  halfClose(): void {
    this.stream.end()
  }

  abort(): void {
    this.stream.close(8)
  }

  #take(chunk: Buffer, onMessage: (message: Buffer) => void): void {
    this.#held = Buffer.concat([this.#held, chunk])
    while (this.#held.length >= 5 && this.#held.length >= 5 + this.#held.readUInt32BE(1)) {
      const size = 5 + this.#held.readUInt32BE(1)
      const message = this.#held.subarray(5, size)
      this.#held = this.#held.subarray(size)
      this.messages.push(message)
      onMessage(message)
    }
  }
}

/** A connection. */
export class GrpcTestClient implements AsyncDisposable {
  readonly session: ClientHttp2Session
  /** Last stream numbers of the GOAWAY frames that came. */
  readonly goaways: number[] = []

  constructor(address: string, options: { readonly ca?: string; readonly servername?: string } = {}) {
    const isSecure = options.ca !== undefined
    this.session = connect(`${isSecure ? 'https' : 'http'}://${address}`, options)
    this.session.on('error', () => undefined)
    this.session.on('goaway', (_code, last) => void this.goaways.push(last ?? 0))
  }

  call(path: string, onMessage?: (message: Buffer) => void): GrpcTestCall {
    return new GrpcTestCall(this.session, path, onMessage)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.session.destroy()
  }
}
