import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Answer, BrokenConnection, Incoming, Sink } from '../../simulator/answer.ts'
import type { SimulatedEngine } from '../../simulator/engine.ts'
import { createFleet, type Fleet, type FleetOptions, control } from '../../simulator/fleet.ts'
import type { Publisher, Router } from 'zeromq'
import { seqFrame } from '../../core/kv-events/event-batch.ts'
import type { CacheChange } from '../../simulator/kv-cache.ts'
import { type KvEventSink, wireEvents, batchBytes, type Encoding } from '../../simulator/kv-events.ts'
import { loadZmq, type Zmq } from './zmq.ts'

export interface HostOptions extends FleetOptions {
  readonly host?: string
  /** Port of the first engine; the next ones follow, then control. 0 (default): free ports. */
  readonly port?: number
  /** Options for engines with `kvEvents`; needs the package zeromq. */
  readonly publish?: KvPublisherOptions
}

export interface RunningFleet extends Fleet {
  /** Base URL of each engine. */
  readonly urls: readonly string[]
  /** Base URL of the control API, which faults do not affect. */
  readonly controlUrl: string
  /** Stops everything and frees the ports. */
  close(): Promise<void>
}

/** Starts a fleet on ports. Faults affect sockets: `refuse` closes the listener, `reset` sends a TCP reset. */
export async function startFleet(options: HostOptions = {}): Promise<RunningFleet> {
  const { host = '127.0.0.1', port = 0, publish = {}, ...fleetOptions } = options
  const fleet = createFleet(fleetOptions)
  const publishers = await publishersOf(fleet, publish)
  const hosts = fleet.engines.map((engine, at) => new EngineHost(fleet, engine, host, port === 0 ? 0 : port + at))
  const controlServer = createServer((request, response) => void answerControl(fleet, request, response))
  try {
    await Promise.all(hosts.map((engineHost) => engineHost.open()))
    await listen(controlServer, host, port === 0 ? 0 : port + hosts.length)
  } catch (error) {
    await Promise.all([
      ...hosts.map((engineHost) => engineHost.close()),
      ...publishers.map((publisher) => publisher.close()),
      closeServer(controlServer),
    ])
    throw error
  }
  return {
    ...fleet,
    urls: hosts.map((engineHost) => engineHost.url),
    controlUrl: `http://${host}:${(controlServer.address() as AddressInfo).port}`,
    close: async () => {
      fleet.stop()
      await Promise.all([
        ...hosts.map((engineHost) => engineHost.close()),
        ...publishers.map((publisher) => publisher.close()),
        closeServer(controlServer),
      ])
    },
  }
}

/** Opens event sockets for the engines that publish. Throws ZmqMissing. */
async function publishersOf(fleet: Fleet, options: KvPublisherOptions): Promise<KvPublisher[]> {
  const publishing = fleet.engines.filter(({ settings }) => settings.kvEvents)
  return Promise.all(
    publishing.map(async (engine) => {
      const publisher = await KvPublisher.open(engine.settings.limits.blockTokens, options)
      engine.events = publisher
      return publisher
    }),
  )
}

/** The port of one engine. It follows the engine's `listening`. */
class EngineHost {
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

async function answerControl(fleet: Fleet, request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    send(response, await control(fleet, await readIncoming(request, new AbortController().signal)))
  } catch {
    request.socket.destroy()
  }
}

async function readIncoming(request: IncomingMessage, signal: AbortSignal): Promise<Incoming> {
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

function send(response: ServerResponse, answer: Answer | BrokenConnection): void {
  const { socket } = response
  if (socket === null || socket.destroyed) {
    if (!('broken' in answer) && typeof answer.body !== 'string') answer.body(deaf)()
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

const deaf: Sink = { write: () => undefined, end: () => undefined, fail: () => undefined }

const listen = (server: Server, host: string, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })

const closeServer = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    if (!server.listening) {
      resolve()
      return
    }
    server.close(() => resolve())
    server.closeAllConnections()
  })

/* Sockets for the KV events of simulated engines. */

export interface KvPublisherOptions {
  /** Default: `maps`, as in vLLM 0.24 and later. */
  readonly encoding?: Encoding
  /** Replay responses contain the topic, as in vLLM 0.26 and later. Default: true. */
  readonly topicInReplay?: boolean
  /** Batches kept for replays. */
  readonly bufferSteps?: number
  readonly topic?: string
}

const BIND_TRIES = 100
const BIND_AGAIN_MS = 20
const EMPTY = new Uint8Array(0)
const END = new Uint8Array(8).fill(0xff)

/**
 * Event sockets of one simulated engine, as in vLLM: a PUB socket that drops unread messages, and a ROUTER socket for
 * replays.
 */
export class KvPublisher implements KvEventSink {
  readonly #zmq: Zmq
  readonly #options: Required<KvPublisherOptions>
  readonly #blockTokens: number
  #publisher: Publisher
  #router: Router
  #endpoint = 'tcp://127.0.0.1:*'
  #replayEndpoint = 'tcp://127.0.0.1:*'
  #seq = 0
  #kept: { readonly seq: number; readonly payload: Uint8Array }[] = []
  /** The pending socket operation. Operations run one after the other. */
  #turn: Promise<void> = Promise.resolve()
  /** Number of batches to drop instead of publishing, as a network might. */
  drop = 0

  private constructor(zmq: Zmq, blockTokens: number, options: KvPublisherOptions) {
    this.#zmq = zmq
    this.#blockTokens = blockTokens
    this.#options = { encoding: 'maps', topicInReplay: true, bufferSteps: 10_000, topic: '', ...options }
    this.#publisher = new zmq.Publisher({ linger: 0 })
    this.#router = new zmq.Router({ linger: 0 })
  }

  /** Opens free local ports. Throws ZmqMissing. */
  static async open(blockTokens: number, options: KvPublisherOptions = {}): Promise<KvPublisher> {
    const publisher = new KvPublisher(await loadZmq(), blockTokens, options)
    await publisher.#bind()
    return publisher
  }

  /** Number of batches since the engine started. */
  get published(): number {
    return this.#seq
  }

  get endpoint(): string {
    return this.#endpoint
  }

  get replayEndpoint(): string {
    return this.#replayEndpoint
  }

  sources(): object {
    const { bufferSteps, topic } = this.#options
    return {
      0: {
        enable_kv_cache_events: true,
        publisher: 'zmq',
        endpoint: this.#endpoint,
        replay_endpoint: this.#replayEndpoint,
        buffer_steps: bufferSteps,
        hwm: 100_000,
        max_queue_size: 100_000,
        topic,
      },
    }
  }

  publish(changes: readonly CacheChange[], atMs: number): void {
    const batch = {
      seq: this.#seq++,
      payload: batchBytes(atMs / 1000, wireEvents(changes, this.#blockTokens), this.#options.encoding),
    }
    this.#kept.push(batch)
    if (this.#kept.length > this.#options.bufferSteps) this.#kept.shift()
    if (this.drop > 0) {
      this.drop -= 1
      return
    }
    this.#turn = this.#turn
      .then(() => this.#publisher.send([this.#options.topic, seqFrame(batch.seq), batch.payload]))
      .catch(() => undefined)
  }

  restarted(): void {
    this.#seq = 0
    this.#kept = []
    this.#turn = this.#turn
      .then(async () => {
        this.#close()
        this.#publisher = new this.#zmq.Publisher({ linger: 0 })
        this.#router = new this.#zmq.Router({ linger: 0 })
        await this.#bindAgain()
      })
      .catch(() => undefined)
  }

  /** ZeroMQ releases the port of a closed socket with a delay. */
  async #bindAgain(): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#bind()
      } catch (error) {
        if (tries === BIND_TRIES) throw error
        await new Promise((resolve) => setTimeout(resolve, BIND_AGAIN_MS))
      }
    }
  }

  async close(): Promise<void> {
    await this.#turn
    this.#close()
  }

  #close(): void {
    this.#publisher.close()
    this.#router.close()
  }

  async #bind(): Promise<void> {
    // It may be bound already if the other socket could not be bound.
    if (this.#publisher.lastEndpoint === null) await this.#publisher.bind(this.#endpoint)
    if (this.#router.lastEndpoint === null) await this.#router.bind(this.#replayEndpoint)
    this.#endpoint = this.#publisher.lastEndpoint ?? this.#endpoint
    this.#replayEndpoint = this.#router.lastEndpoint ?? this.#replayEndpoint
    void this.#answerReplays(this.#router)
  }

  async #answerReplays(router: Router): Promise<void> {
    try {
      for await (const [client, , from] of router) {
        if (client === undefined || from === undefined || from.length !== 8) continue
        const start = Number(from.readBigUInt64BE())
        const topic = this.#options.topicInReplay ? [this.#options.topic] : []
        for (const { seq, payload } of this.#kept)
          if (seq >= start) await router.send([client, EMPTY, ...topic, seqFrame(seq), payload])
        await router.send([client, EMPTY, ...topic, END, EMPTY])
      }
    } catch {
      // Closed in the middle of an answer.
    }
  }
}
