/** An engine that fails in every way an engine can; it implements enough of vLLM's API. */
import http from 'node:http'
import type { Socket } from 'node:net'
import { ownPorts } from '../own-ports.ts'

export type Mode =
  | 'ok'
  | '500'
  /** Healthy, but every request gets a 500. */
  | '500_but_healthy'
  | 'busy'
  | 'busy_inside'
  /** As in some versions: the code is a string. */
  | 'busy_inside_text'
  /** As vLLM in development mode: healthy in its checks and metrics, without responses. */
  | 'paused'
  /** Accepts the request and sends nothing. */
  | 'hang'
  /** Sends only the head. */
  | 'hang_after_head'
  /** Resets the connection after the request arrived. */
  | 'reset'
  /** Resets the connection in the middle of the stream. */
  | 'reset_midstream'
  | 'garbage'

export interface FaultEngine {
  readonly url: string
  readonly id: string
  mode: Mode
  ttftMs: number
  itlMs: number
  tokens: number
  requests: number
  /** Number of running requests. */
  readonly running: number
  /** Requests whose client disconnected before the end. */
  aborts: number
  /** Resolves when no request runs. */
  idle(): Promise<void>
  /** Resolves when `count` requests came since the start. */
  arrived(count: number): Promise<void>
  /** Stops listening and breaks every connection, as when a process is killed. */
  kill(): Promise<void>
  /** Listens again on the same port, if it was killed. */
  revive(): Promise<void>
  close(): Promise<void>
}

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms))
const BUSY = {
  error: {
    message:
      'The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.',
    type: 'Service Unavailable',
    param: null,
    code: 503,
  },
}

export async function startFaultEngine(id: string): Promise<FaultEngine> {
  const engine = new Engine(id)
  await engine.revive()
  return engine
}

class Engine implements FaultEngine {
  readonly id: string
  mode: Mode = 'ok'
  ttftMs = 5
  itlMs = 5
  tokens = 4
  requests = 0
  running = 0
  aborts = 0
  #port = 0
  #server: http.Server | null = null
  readonly #sockets = new Set<Socket>()
  #waiting: { until: () => boolean; resolve: () => void }[] = []

  constructor(id: string) {
    this.id = id
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  idle(): Promise<void> {
    return this.#until(() => this.running === 0)
  }

  arrived(count: number): Promise<void> {
    return this.#until(() => this.requests >= count)
  }

  async kill(): Promise<void> {
    const server = this.#server
    this.#server = null
    for (const socket of this.#sockets) socket.resetAndDestroy()
    await new Promise((done) => (server === null ? done(null) : server.close(done)))
  }

  async revive(): Promise<void> {
    if (this.#server !== null) return
    const server = http.createServer((request, response) => void this.#serve(request, response))
    server.on('connection', (socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
    this.#server = server
    do {
      const port = this.#port || ownPorts(1)
      const heard = await new Promise<boolean>((resolve, reject) => {
        server.once('error', (error: NodeJS.ErrnoException) =>
          this.#port === 0 && error.code === 'EADDRINUSE' ? resolve(false) : reject(error),
        )
        server.listen(port, '127.0.0.1', () => resolve(true))
      })
      if (heard) this.#port = port
    } while (this.#port === 0)
  }

  close(): Promise<void> {
    return this.kill()
  }

  async #serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const hangs = this.mode === 'hang'
    if (request.method === 'GET') {
      if (hangs) return
      if (request.url === '/is_paused')
        return void response
          .writeHead(200, { 'content-type': 'application/json' })
          .end(`{"is_paused":${this.mode === 'paused'}}`)
      if (request.url === '/metrics')
        return void response.end(
          `vllm:num_requests_running{engine="0"} ${this.running}\nvllm:num_requests_waiting{engine="0"} 0\n`,
        )
      return void response.writeHead(this.mode === '500' ? 500 : 200).end()
    }
    this.requests++
    this.running++
    response.on('close', () => {
      this.running--
      if (!response.writableFinished) this.aborts++
      this.#changed()
    })
    this.#changed()
    const body = JSON.parse(Buffer.concat(pieces).toString() || '{}') as {
      stream?: boolean
      stream_options?: { include_usage?: boolean }
    }
    await this.#answer(response, body.stream === true, body.stream_options?.include_usage === true)
  }

  async #answer(response: http.ServerResponse, stream: boolean, usage: boolean): Promise<void> {
    const json = (status: number, value: unknown) =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    switch (this.mode) {
      case 'hang':
      case 'paused':
        return
      case '500':
      case '500_but_healthy':
        return json(500, {
          error: { message: `secret of ${this.url}`, type: 'InternalServerError', param: null, code: 500 },
        })
      case 'busy':
        return json(503, BUSY)
      case 'busy_inside':
      case 'busy_inside_text':
        // vLLM has sent its head before it detects that it is full.
        if (!stream) return json(503, BUSY)
        return void response
          .writeHead(200, { 'content-type': 'text/event-stream' })
          .end(
            `data: ${JSON.stringify(this.mode === 'busy_inside' ? BUSY : { error: { ...BUSY.error, code: '503' } })}\n\ndata: [DONE]\n\n`,
          )
      case 'reset':
        return void response.socket?.resetAndDestroy()
      case 'garbage':
        return void response.socket?.end('HTTP/1.1 OK\r\n\r\n')
      default:
    }
    const counts = {
      prompt_tokens: 3,
      completion_tokens: this.tokens,
      total_tokens: 3 + this.tokens,
      prompt_tokens_details: { cached_tokens: 0 },
    }
    if (!stream) {
      await pause(this.ttftMs + this.tokens * this.itlMs)
      return json(200, {
        id: 'x',
        object: 'chat.completion',
        choices: [{ index: 0, message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }],
        usage: counts,
      })
    }
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
    response.flushHeaders()
    if (this.mode === 'hang_after_head') return
    await pause(this.ttftMs)
    for (let i = 0; i < this.tokens && !response.destroyed; i++) {
      response.write(
        `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: `t${i} ` } }] })}\n\n`,
      )
      await pause(this.itlMs)
      if (i >= 1 && this.mode === 'reset_midstream') return void response.socket?.resetAndDestroy()
    }
    if (usage)
      response.write(
        `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [], usage: counts })}\n\n`,
      )
    response.end('data: [DONE]\n\n')
  }

  #until(condition: () => boolean): Promise<void> {
    if (condition()) return Promise.resolve()
    return new Promise((resolve) => this.#waiting.push({ until: condition, resolve }))
  }

  #changed(): void {
    const ready = this.#waiting.filter(({ until }) => until())
    this.#waiting = this.#waiting.filter((waiter) => !ready.includes(waiter))
    for (const { resolve } of ready) resolve()
  }
}
