/**
 * One programmable engine for all tests that need an engine on a port. It answers what a table says: a status, a head,
 * a body in timed pieces or raw bytes, over HTTP/1.1, HTTP/1.0 or TLS, and it can close, reset or keep silent at any
 * byte. It records what it received. For an engine that behaves like vLLM, use packages/simulator.
 */
import { once } from 'node:events'
import net, { type AddressInfo } from 'node:net'
import tls from 'node:tls'
import { EngineConnection } from './engine-connection.ts'
import type { Route, Routes } from './fake-answer.ts'
import type { EngineRequest } from './engine-request.ts'

export interface FakeEngineOptions {
  /** Key and certificate: the engine is at an https address. */
  readonly secure?: tls.TlsOptions
  /** Default: 127.0.0.1. With 0.0.0.0 it is an engine at each loopback address; see `request.address`. */
  readonly host?: string
  /** Default: any free port. A fixed one (test/own-ports.ts) allows `kill` and `revive`. */
  readonly port?: number
}

export class FakeEngine {
  /** Answers by route; tests may replace entries at any time. */
  routes: Record<string, Route>
  /** Requests of clients in the order of their arrival: no probes and trials of the gateway. A test may empty it. */
  readonly posts: EngineRequest[] = []
  /** All requests in the order of their arrival. */
  readonly requests: EngineRequest[] = []
  /** Bytes that answer a POST request at its head: the body is read and ignored, and the connection ends. */
  refusal: string | null = null
  /** Connections accepted so far. */
  accepted = 0
  port = 0
  readonly sockets = new Set<net.Socket>()
  readonly #open = new Set<EngineRequest>()
  readonly #options: FakeEngineOptions
  #server: net.Server | null = null

  private constructor(routes: Routes, options: FakeEngineOptions) {
    this.routes = { ...routes }
    this.#options = options
    this.port = options.port ?? 0
  }

  static async open(routes: Routes = {}, options: FakeEngineOptions = {}): Promise<FakeEngine> {
    const engine = new FakeEngine(routes, options)
    await engine.revive()
    return engine
  }

  get url(): string {
    return `${this.#options.secure === undefined ? 'http' : 'https'}://127.0.0.1:${this.port}`
  }

  /** All requests as `METHOD /path`, in the order of their arrival. */
  get calls(): string[] {
    return this.requests.map(({ method, path }) => `${method} ${path}`)
  }

  /** Requests, without probes, whose response has not ended. */
  get running(): number {
    return this.#open.size
  }

  /** Requests whose client disconnected before the end of the response. */
  get aborted(): number {
    return this.posts.filter(({ state }) => state === 'aborted').length
  }

  /** Stops listening and resets all connections, as when a process is killed. */
  async kill(): Promise<void> {
    for (const socket of this.sockets) if (!(socket instanceof tls.TLSSocket)) socket.resetAndDestroy()
    await this.close()
  }

  async close(): Promise<void> {
    const server = this.#server
    this.#server = null
    for (const socket of this.sockets) socket.destroy()
    if (server !== null) await new Promise((resolve) => server.close(resolve))
  }

  /** Listens again at the same port. */
  async revive(): Promise<void> {
    if (this.#server !== null) return
    const accept = (socket: net.Socket): void => this.#accept(socket)
    const { secure, host = '127.0.0.1' } = this.#options
    this.#server = secure === undefined ? net.createServer({ noDelay: true }, accept) : tls.createServer(secure, accept)
    await once(this.#server.listen(this.port, host), 'listening')
    this.port = (this.#server.address() as AddressInfo).port
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #accept(socket: net.Socket): void {
    this.accepted += 1
    this.sockets.add(socket)
    socket
      .setMaxListeners(0)
      .on('error', () => {})
      .on('close', () => this.sockets.delete(socket))
    const number = this.accepted
    new EngineConnection(socket, number, {
      route: (request) => this.#route(request),
      refusal: () => this.refusal,
    }).begin()
  }

  #route(request: EngineRequest): Route {
    this.requests.push(request)
    if (request.method !== 'GET' && !request.isTrial) {
      this.posts.push(request)
      this.#open.add(request)
      void request.ended.then(() => this.#open.delete(request))
    }
    const { method, path } = request
    return this.routes[`${method} ${path}`] ?? this.routes[`${method} *`] ?? this.routes['*'] ?? { body: {} }
  }
}
