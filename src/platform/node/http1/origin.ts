/** The `Origin` port over the own HTTP/1.1 client. See README.md. */
import { sizeOf } from '../../../core/bytes.ts'
import { headersForTarget } from '../../../origin/headers.ts'
import {
  type ResponseHandler,
  type Origin,
  OriginError,
  type OriginAnswer,
  type OriginRequest,
} from '../../../ports/origin.ts'
import { EngineRequest } from './engine-request.ts'
import type { EngineTarget, EngineTls } from '../../../ports/engine-target.ts'
import type { Certificates } from './engine-connection.ts'
import { ConnectionPool } from './connection-pool.ts'
import { isFieldValue } from './head-fields.ts'

interface NodeOriginOptions {
  /** Epoch milliseconds. */
  readonly now?: () => number
  /** Interval at which idle connections and unused engines are removed; absent: 1 s. */
  readonly sweepMs?: number
  /** Idle connections are closed after this time; absent: 4 s, because vLLM (uvicorn) closes them after 5 s. */
  readonly idleSocketMs?: number
  /** Most idle connections to one engine. */
  readonly maxIdleSockets?: number
  /** Authorities trusted for https engines, PEM; absent: those Node trusts, NODE_EXTRA_CA_CERTS among them. */
  readonly ca?: string
  /** Certificates of an engine that names files. Absent: none may. */
  readonly certificatesFor?: (tls: EngineTls) => Certificates
}

/** @testing */
export interface NodeOrigin extends Origin {
  /** Number of engines with connections or recent requests. */
  readonly size: number
  /** Closes each connection as soon as it is idle, also those of later requests. */
  close(): void
}

/** Default of `idleSocketMs`. */
export const IDLE_MS = 4_000
const MAX_IDLE = 256
const SWEEP_MS = 1_000
/**
 * An engine without connections and requests is removed after this time: fleets with changing addresses have no end of
 * them.
 */
const FORGET_MS = 60_000

interface Engine {
  readonly url: URL
  readonly basePath: string
  readonly connections: ConnectionPool
  usedAt: number
}

export function socketOrigin(options: NodeOriginOptions = {}): NodeOrigin {
  return new SocketOrigin(options)
}

class SocketOrigin implements NodeOrigin {
  readonly #options: NodeOriginOptions
  readonly #now: () => number
  readonly #engines = new Map<string, Engine>()
  readonly #sweeper: NodeJS.Timeout
  #isClosed = false

  constructor(options: NodeOriginOptions) {
    this.#options = options
    this.#now = options.now ?? Date.now
    this.#sweeper = setInterval(() => this.#sweep(), options.sweepMs ?? SWEEP_MS).unref()
  }

  get size(): number {
    return this.#engines.size
  }

  begin(request: OriginRequest, handler: ResponseHandler): void {
    try {
      if (request.signal.aborted) throw request.signal.reason
      const engine = this.#engineOf(request.target)
      new EngineRequest(
        { request, text: requestHead(request, engine), connections: engine.connections, host: engine.url.host },
        handler,
      ).start()
    } catch (error) {
      handler.failed(error)
    }
  }

  send(request: OriginRequest): Promise<OriginAnswer> {
    return new Promise((resolve, reject) => this.begin(request, new HeadOnly(resolve, reject)))
  }

  close(): void {
    this.#isClosed = true
    clearInterval(this.#sweeper)
    for (const { connections } of this.#engines.values()) connections.close()
    this.#engines.clear()
  }

  #engineOf({ url: base, tls }: Pick<EngineTarget, 'url' | 'tls'>): Engine {
    // Connections with other certificates are not shared.
    const name = tls === undefined ? base : `${base} ${tls.ca} ${tls.cert} ${tls.key}`
    let engine = this.#engines.get(name)
    if (engine === undefined) {
      const url = new URL(base)
      const connections = new ConnectionPool(url, {
        idleMs: this.#options.idleSocketMs ?? IDLE_MS,
        maxIdle: this.#options.maxIdleSockets ?? MAX_IDLE,
        now: this.#now,
        certificates: () => this.#certificates(tls),
        freeDescriptors: () => this.#closeIdle(),
      })
      if (this.#isClosed) connections.close()
      engine = { url, basePath: url.pathname.replace(/\/$/, ''), connections, usedAt: 0 }
      this.#engines.set(name, engine)
    }
    engine.usedAt = this.#now()
    return engine
  }

  #certificates(tls: EngineTls | undefined): Certificates {
    const { ca, certificatesFor } = this.#options
    if (tls === undefined || certificatesFor === undefined) return ca === undefined ? {} : { ca }
    try {
      return certificatesFor(tls)
    } catch (error) {
      throw new OriginError('connect', (error as Error).message, { cause: error })
    }
  }

  #sweep(): void {
    for (const [base, { connections, usedAt }] of this.#engines) {
      connections.sweep()
      if (connections.open === 0 && this.#now() - usedAt > FORGET_MS) this.#engines.delete(base)
    }
  }

  /** false: there was no idle connection. */
  #closeIdle(): boolean {
    let closed = false
    for (const { connections } of this.#engines.values()) closed = connections.closeIdle() || closed
    return closed
  }
}

/** Resolves with the response as soon as its head has arrived. */
class HeadOnly implements ResponseHandler {
  readonly patienceMs = 0
  readonly #resolve: (answer: OriginAnswer) => void
  readonly failed: (error: unknown) => void

  constructor(resolve: (answer: OriginAnswer) => void, failed: (error: unknown) => void) {
    this.#resolve = resolve
    this.failed = failed
  }

  head(answer: OriginAnswer): boolean {
    this.#resolve(answer)
    return false
  }

  firstByte(): void {
    // Not called: `head` returns false.
  }
}

function requestHead(request: OriginRequest, engine: Engine): string {
  const headers = headersForTarget(request.headers, request.target)
  // A line break in a path or value would be a second request.
  if (!isFieldValue(request.path) || request.path.includes(' ') || !headers.every(isFieldValue))
    throw new OriginError('malformed', 'a header or the path holds a byte that HTTP/1.1 cannot carry')
  let head = `${request.method} ${engine.basePath}${request.path} HTTP/1.1\r\nhost: ${engine.url.host}\r\n`
  for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`
  const { method, body } = request
  if (body !== null || method === 'POST') head += `content-length: ${body === null ? 0 : sizeOf(body)}\r\n`
  return `${head}\r\n`
}
