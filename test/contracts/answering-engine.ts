/** An engine on a real port whose answer to POST requests a test sets. */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export interface ScriptedAnswer {
  readonly status: number
  /** Flat. Absent: JSON. */
  readonly headers?: readonly string[]
  readonly body: string | Uint8Array
  /** Sent before `body`, one write each. A number is a pause, ms. */
  readonly pieces?: readonly (string | number)[]
  /** The connection breaks after the body. */
  readonly breaks?: boolean
}

export interface SeenRequest {
  readonly method: string
  readonly url: string
  readonly headers: http.IncomingHttpHeaders
  readonly body: Readonly<Record<string, unknown>>
}

export class ScriptedEngine {
  readonly seen: SeenRequest[] = []
  /** Answers by path; GET routes that are not named answer 404, and `/health` 200. */
  readonly gets = new Map<string, string>()
  answer: ScriptedAnswer | ((request: SeenRequest) => ScriptedAnswer)
  readonly #server: http.Server

  private constructor(answer: ScriptedAnswer) {
    this.answer = answer
    this.#server = http.createServer((request, response) => void this.#serve(request, response))
  }

  static async open(answer: ScriptedAnswer): Promise<ScriptedEngine> {
    const engine = new ScriptedEngine(answer)
    await new Promise<void>((resolve) => engine.#server.listen(0, '127.0.0.1', resolve))
    return engine
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Requests for an answer, without probes. */
  get posts(): readonly SeenRequest[] {
    return this.seen.filter(({ method }) => method === 'POST')
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  async #serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const { method, url, headers } = request
    const sent = await text(request)
    const seen = {
      method: method!,
      url: url!,
      headers,
      body: sent === '' ? {} : (JSON.parse(sent) as SeenRequest['body']),
    }
    this.seen.push(seen)
    if (method === 'GET') {
      const found = url === '/health' ? '{}' : this.gets.get(url!)
      response
        .writeHead(found === undefined ? 404 : 200, { connection: 'close' })
        .end(found ?? '{"detail":"Not Found"}')
      return
    }
    const answer = typeof this.answer === 'function' ? this.answer(seen) : this.answer
    const { status, headers: flat = JSON_TYPE, body, pieces = [], breaks = false } = answer
    // An answer of length 0 keeps its head in one piece.
    response.writeHead(status, [...flat, 'connection', 'close'])
    for (const piece of pieces) {
      if (typeof piece === 'number') await new Promise((resolve) => setTimeout(resolve, piece))
      else response.write(piece)
    }
    if (!breaks) return void response.end(body)
    response.write(body, () => response.destroy())
  }
}

const JSON_TYPE = ['content-type', 'application/json'] as const

/** Answers of the usual form to a chat, as a stream or not. */
export function chatAnswer(said: string): (request: SeenRequest) => ScriptedAnswer {
  const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 }
  return ({ body }) =>
    body['stream'] === true
      ? {
          status: 200,
          headers: ['content-type', 'text/event-stream'],
          body:
            `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta: { content: said }, finish_reason: 'stop' }] })}\n\n` +
            `data: ${JSON.stringify({ id: 'c', choices: [], usage })}\n\ndata: [DONE]\n\n`,
        }
      : {
          status: 200,
          body: JSON.stringify({
            id: 'c',
            choices: [{ index: 0, message: { content: said }, finish_reason: 'stop' }],
            usage,
          }),
        }
}
