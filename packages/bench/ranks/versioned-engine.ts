/** An engine whose tokens name the version of its weights, with vLLM's routes for a pause. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

const TOKEN_MS = 5

interface RunningStream {
  readonly response: ServerResponse
  left: number
}

export class VersionedEngine {
  version = 1
  /** null: it runs. */
  #paused: string | null = null
  readonly #streams = new Set<RunningStream>()
  readonly #server: Server
  readonly #timer: ReturnType<typeof setInterval>

  private constructor() {
    this.#server = createServer((request, response) => this.#answer(request, response))
    this.#timer = setInterval(() => this.#step(), TOKEN_MS)
  }

  static async open(): Promise<VersionedEngine> {
    const engine = new VersionedEngine()
    await new Promise<void>((resolve) => engine.#server.listen(0, '127.0.0.1', resolve))
    return engine
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Requests that it has begun and not ended. */
  get running(): number {
    return this.#streams.size
  }

  close(): void {
    clearInterval(this.#timer)
    this.#server.closeAllConnections()
    this.#server.close()
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://engine')
    if (pathname === '/v1/chat/completions') return this.#begin(request, response)
    request.resume()
    if (pathname === '/pause') this.#pause(searchParams.get('mode') ?? 'abort')
    if (pathname === '/resume') this.#paused = null
    const known: Readonly<Record<string, unknown>> = {
      '/weight_info': { version: this.version },
      '/is_paused': { is_paused: this.#paused !== null },
      '/pause': {},
      '/resume': {},
      '/health': {},
    }
    const body = known[pathname]
    response.writeHead(body === undefined ? 404 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(body ?? {}))
  }

  #begin(request: IncomingMessage, response: ServerResponse): void {
    if (this.#paused !== null && this.#paused !== 'keep') {
      const message = 'Generation is paused. Please retry after it resumes.'
      response.writeHead(503, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ error: { message, type: 'ServiceUnavailableError', code: 503 } }))
      return
    }
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { max_tokens: left = 1 } = JSON.parse(Buffer.concat(chunks).toString()) as { max_tokens?: number }
      const stream = { response, left }
      this.#streams.add(stream)
      response.on('close', () => this.#streams.delete(stream))
      response.writeHead(200, { 'content-type': 'text/event-stream' })
    })
  }

  #pause(mode: string): void {
    this.#paused = mode
    if (mode !== 'abort') return
    for (const { response } of this.#streams) end(response, 'abort')
    this.#streams.clear()
  }

  /** One token of each stream, by the weights of now. */
  #step(): void {
    if (this.#paused !== null) return
    for (const stream of this.#streams) {
      if (stream.left > 0) {
        stream.left -= 1
        stream.response.write(event({ delta: { content: `v${this.version} ` }, finish_reason: null }))
        continue
      }
      this.#streams.delete(stream)
      end(stream.response, 'stop')
    }
  }
}

const event = (choice: object): string =>
  `data: ${JSON.stringify({ object: 'chat.completion.chunk', choices: [{ index: 0, ...choice }] })}\n\n`

function end(response: ServerResponse, reason: string): void {
  response.end(`${event({ delta: {}, finish_reason: reason })}data: [DONE]\n\n`)
}
