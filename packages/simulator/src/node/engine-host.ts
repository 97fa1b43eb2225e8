import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Answer, BrokenConnection, Incoming, Sink } from '../answer.ts'
import { control } from '../control.ts'
import type { SimulatedEngine } from '../engine.ts'
import type { Fleet } from '../fleet.ts'

/** The port of one engine. It follows the engine's `listening`. */
export class EngineHost {
  readonly #fleet: Fleet
  readonly #engine: SimulatedEngine
  readonly #host: string
  readonly #sockets = new Set<Socket>()
  /** Number of requests per socket. */
  readonly #served = new WeakMap<Socket, number>()
  #port: number
  #server: Server | null = null
  #stopObserving: () => void = () => undefined
  /** Changes of the listener, one after the other. */
  #changes: Promise<void> = Promise.resolve()

  constructor(fleet: Fleet, engine: SimulatedEngine, host: string, port: number) {
    this.#fleet = fleet
    this.#engine = engine
    this.#host = host
    this.#port = port
  }

  get url(): string {
    return `http://${this.#host}:${this.#port}`
  }

  async open(): Promise<void> {
    await this.#listen()
    this.#engine.url = this.url
    this.#stopObserving = this.#engine.observe(() => this.#follow())
  }

  async close(): Promise<void> {
    this.#stopObserving()
    await this.#changes
    await this.#unlisten()
  }

  #follow(): void {
    if (this.#engine.listening) {
      // Fails only if another process took the port meanwhile. It then stays closed.
      this.#changes = this.#changes.then(() => this.#listen()).catch(() => undefined)
    } else {
      // Immediately, so that the next connection is refused.
      const closing = this.#unlisten()
      this.#changes = this.#changes.then(() => closing)
    }
  }

  async #listen(): Promise<void> {
    if (this.#server !== null || !(this.#engine.listening || this.#port === 0)) return
    const server = createServer((request, response) => void this.#answer(request, response))
    server.keepAliveTimeout = 5000
    server.on('connection', (socket) => {
      this.#sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('close', () => this.#sockets.delete(socket))
    })
    this.#server = server
    await listen(server, this.#host, this.#port)
    this.#port = (server.address() as AddressInfo).port
  }

  async #unlisten(): Promise<void> {
    const server = this.#server
    this.#server = null
    for (const socket of this.#sockets) socket.resetAndDestroy()
    if (server !== null) await closeServer(server)
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request
    const before = this.#served.get(socket) ?? 0
    this.#served.set(socket, before + 1)
    if (before > 0 && this.#engine.fault?.kind === 'close_idle') {
      socket.destroy()
      return
    }
    const gone = new AbortController()
    response.on('close', () => {
      if (!response.writableFinished) gone.abort()
    })
    try {
      const incoming = await readIncoming(request, gone.signal)
      if (incoming.path.startsWith('/_sim')) send(response, await control(this.#fleet, incoming))
      else send(response, await this.#engine.handle(incoming))
    } catch {
      // The client disconnected while its body was read.
      socket.destroy()
    }
  }
}

export async function readIncoming(request: IncomingMessage, signal: AbortSignal): Promise<Incoming> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const url = new URL(request.url ?? '/', 'http://engine')
  const headers = new Map<string, string>()
  for (const [name, value] of Object.entries(request.headers)) {
    if (value !== undefined) headers.set(name, Array.isArray(value) ? value.join(', ') : value)
  }
  return {
    method: request.method ?? 'GET',
    path: url.pathname,
    query: url.searchParams,
    headers,
    body: Buffer.concat(chunks).toString(),
    signal,
  }
}

export function send(response: ServerResponse, answer: Answer | BrokenConnection): void {
  const { socket } = response
  if (socket === null || socket.destroyed) {
    if (!('broken' in answer) && typeof answer.body !== 'string') answer.body(NO_SINK)()
    return
  }
  if ('broken' in answer) {
    if (answer.broken === 'garbage') socket.end('220 smtp.example ESMTP ready\r\n')
    else socket.resetAndDestroy()
    return
  }
  const { status, headers, body } = answer
  if (typeof body === 'string') {
    response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) })
    response.end(body)
    return
  }
  response.writeHead(status, headers)
  // vLLM sends the response head long before the first token.
  response.flushHeaders()
  const stop = body({
    write: (text) => void response.write(text),
    end: () => void response.end(),
    fail: () => socket.resetAndDestroy(),
  })
  response.on('close', () => {
    if (!response.writableFinished) stop()
  })
}

const NO_SINK: Sink = { write: () => undefined, end: () => undefined, fail: () => undefined }

export const listen = (server: Server, host: string, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })

export const closeServer = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    if (!server.listening) {
      resolve()
      return
    }
    server.close(() => resolve())
    server.closeAllConnections()
  })
