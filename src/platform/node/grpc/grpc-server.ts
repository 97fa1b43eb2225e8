/** gRPC over node:http2: connections, calls by their path, and shutdown. */
import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type ServerOptions,
} from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { SecureContextOptions, Server as TlsServer } from 'node:tls'
import { type CallHandler, GrpcCall } from './grpc-call.ts'
import { GRPC } from './grpc-status.ts'

/** Handlers by path, such as `/package.Service/Method`. */
export type GrpcMethods = ReadonlyMap<string, (call: GrpcCall) => CallHandler>

interface GrpcServerOptions {
  readonly host: string
  readonly port: number
  readonly reusePort?: boolean
  /** Certificate and key, PEM. null: without TLS. */
  readonly tls: SecureContextOptions | null
  /** Limit of one message. */
  readonly messageBytes: number
  /** Limit of calls at a time on one connection. */
  readonly maxStreams: number
  readonly methods: GrpcMethods
  readonly failed: (error: unknown) => void
}

const WINDOW_BYTES = 16 * 1024 * 1024
const STREAM_WINDOW_BYTES = 1024 * 1024
/** A larger frame costs fewer events per body. */
const FRAME_BYTES = 256 * 1024
/** Node refuses streams of a connection beyond it, MB. Bodies are limited by `limits.buffered_bytes`. */
const SESSION_MB = 4096
/**
 * Envoy resets each finished stream of an external processor. Node closes a connection after 1,000 resets and 33 more
 * a second, which fails requests under load. Both options are needed: one alone has no effect.
 */
const RESETS = 10_000_000
/** Limit of a TLS handshake and of the time until the preface, ms. */
const HANDSHAKE_MS = 15_000
/** Longest wait for the answer to a ping at shutdown, ms. */
const PONG_MS = 250
const LARGEST_STREAM = 2 ** 31 - 1

const serverOptions = (maxStreams: number): ServerOptions => ({
  settings: {
    maxConcurrentStreams: maxStreams,
    initialWindowSize: STREAM_WINDOW_BYTES,
    maxFrameSize: FRAME_BYTES,
    enablePush: false,
  },
  maxSessionMemory: SESSION_MB,
  streamResetBurst: RESETS,
  streamResetRate: RESETS,
})

export class GrpcServer {
  readonly #options: GrpcServerOptions
  readonly #server: Http2Server | Http2SecureServer
  readonly #sessions = new Set<ServerHttp2Session>()
  #isClosing = false

  constructor(options: GrpcServerOptions) {
    this.#options = options
    const { tls, maxStreams } = options
    this.#server =
      tls === null
        ? createServer(serverOptions(maxStreams))
        : createSecureServer({
            ...serverOptions(maxStreams),
            ...tls,
            ALPNProtocols: ['h2'],
            handshakeTimeout: HANDSHAKE_MS,
          })
    this.#server.on('session', (session) => this.#opened(session))
    this.#server.on('stream', (stream: ServerHttp2Stream, headers) => this.#called(stream, headers))
    // Failures of one connection: bad handshakes, resets.
    this.#server.on('sessionError', () => undefined)
    this.#server.on('tlsClientError', () => undefined)
  }

  /** Resolves with the bound port; rejects with the system's error if it cannot be opened. */
  listen(): Promise<number> {
    const { host, port, reusePort = false } = this.#options
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen({ host, port, reusePort }, () => {
        this.#server.off('error', reject)
        resolve((this.#server.address() as AddressInfo).port)
      })
    })
  }

  /** Uses another certificate for new connections. */
  renew(tls: SecureContextOptions): void {
    if (this.#options.tls !== null) (this.#server as unknown as TlsServer).setSecureContext(tls)
  }

  /**
   * Accepts no new connections and asks clients to open none: GOAWAY, first with the largest stream number, so that
   * streams on their way are served. Resolves when all calls have ended.
   */
  async close(): Promise<void> {
    this.#isClosing = true
    await Promise.all(Array.from(this.#sessions, announceEnd))
    // Sends the second GOAWAY to all sessions, with the number of the last stream.
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }

  /** Breaks all calls. */
  destroy(): void {
    for (const session of this.#sessions) session.destroy()
  }

  #opened(session: ServerHttp2Session): void {
    this.#sessions.add(session)
    session.setLocalWindowSize(WINDOW_BYTES)
    session.on('error', () => undefined)
    session.on('close', () => this.#sessions.delete(session))
    if (this.#isClosing) void announceEnd(session)
  }

  #called(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const { methods, messageBytes, failed } = this.#options
    // Without a listener an aborted stream would end the process.
    stream.on('error', () => undefined)
    const isGrpc = headers['content-type']?.startsWith('application/grpc') === true
    if (headers[':method'] !== 'POST' || !isGrpc) return refuse(stream, { ':status': 415 })
    const handlerOf = methods.get(headers[':path'] ?? '')
    if (handlerOf === undefined) return refuse(stream, UNKNOWN_METHOD)
    const call = new GrpcCall({ stream, messageBytes, failed })
    call.open(handlerOf(call))
  }
}

const UNKNOWN_METHOD = {
  ':status': 200,
  'content-type': 'application/grpc',
  'grpc-status': String(GRPC.unimplemented),
  'grpc-message': 'This server has no such method.',
}

function refuse(stream: ServerHttp2Stream, headers: Record<string, string | number>): void {
  stream.respond(headers, { endStream: true })
  stream.resume()
}

/** Resolves when the streams that the client opened before it got the first GOAWAY are here: they precede the pong. */
function announceEnd(session: ServerHttp2Session): Promise<void> {
  return new Promise((resolve) => {
    session.once('close', () => resolve())
    if (session.closed || session.destroyed) return resolve()
    session.goaway(0, LARGEST_STREAM)
    if (!session.ping(() => resolve())) return resolve()
    // A client that is gone answers no ping.
    setTimeout(resolve, PONG_MS)
  })
}
