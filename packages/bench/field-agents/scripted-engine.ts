/**
 * A scripted engine for coding agents: it answers chats, messages and responses with the next step of a task, counts
 * its true cached tokens, reports usage as vLLM does, and fails on demand. Its fleet records each request.
 */
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type LocalServer, serveLocally } from '../../../test/kit/local-server.ts'
import type { Answer, Counts } from './answer.ts'
import { writerOf } from './answer-writers.ts'
import { blockTokens, countPrompt, PrefixCache, type CountedPrompt } from './prefix-cache.ts'
import type { Body, Fault, ServedRequest } from './served-request.ts'
import { promptPaths, renderPrompt } from './rendered-prompt.ts'

/** Engines under one script and one list of faults. */
export interface EngineFleet {
  readonly served: ServedRequest[]
  /** Cached tokens of the prompt at each engine, by name. */
  cachedAt(prompt: CountedPrompt): Readonly<Record<string, number>>
  answer(body: Body): Answer
  /** Takes the fault of this request. null: it is served. */
  fault(body: Body): Fault | null
}

const MODEL = 'coder'
const PREFILL_US_PER_TOKEN = 40
const TOKEN_MS = 2
const JSON_TYPE = { 'content-type': 'application/json' }
const METRICS = (running: number): string =>
  [
    '# TYPE vllm:num_requests_running gauge',
    `vllm:num_requests_running{model_name="${MODEL}",engine="0"} ${running}.0`,
    '# TYPE vllm:num_requests_waiting gauge',
    `vllm:num_requests_waiting{model_name="${MODEL}",engine="0"} 0.0`,
    '# TYPE vllm:kv_cache_usage_perc gauge',
    `vllm:kv_cache_usage_perc{model_name="${MODEL}",engine="0"} 0.0`,
    '',
  ].join('\n')

export class ScriptedEngine {
  readonly cache = new PrefixCache()
  readonly name: string
  readonly #fleet: EngineFleet
  #server!: LocalServer
  #running = 0

  private constructor(name: string, fleet: EngineFleet) {
    this.name = name
    this.#fleet = fleet
  }

  static async open(name: string, fleet: EngineFleet): Promise<ScriptedEngine> {
    const engine = new ScriptedEngine(name, fleet)
    const server = createServer((request, response) => {
      engine.#serve(request, response).catch(() => response.destroy())
    })
    engine.#server = await serveLocally(server)
    return engine
  }

  get url(): string {
    return this.#server.url
  }

  close(): Promise<void> {
    return this.#server.close()
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '/', 'http://engine')
    if (request.method === 'POST' && promptPaths.includes(pathname)) return this.#generate(request, response, pathname)
    request.resume()
    if (pathname === '/metrics') return void response.end(METRICS(this.#running))
    if (pathname === '/health') return void response.end()
    if (pathname === '/version') return json(response, 200, { version: '0.33.0' })
    if (pathname === '/v1/models')
      return json(response, 200, { object: 'list', data: [{ id: MODEL, object: 'model', max_model_len: 200_000 }] })
    json(response, 404, { detail: 'Not Found' })
  }

  async #generate(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const body = JSON.parse(Buffer.concat(parts).toString()) as Body
    const prompt = countPrompt(renderPrompt(path, body))
    const cached = this.cache.cachedTokens(prompt)
    const fault = this.#fleet.fault(body)
    const { headers } = request
    const cachedAt = this.#fleet.cachedAt(prompt)
    this.#fleet.served.push({ engine: this.name, at: performance.now(), path, headers, body, prompt, cachedAt, fault })
    if (fault === 'busy') return json(response, 429, BUSY)
    this.#running++
    try {
      await sleep((PREFILL_US_PER_TOKEN * (prompt.tokens - cached)) / 1000)
      this.cache.add(prompt)
      const answer = this.#fleet.answer(body)
      const output = Math.ceil((answer.text.length + JSON.stringify(answer.call ?? '').length) / 4)
      const created = Math.max(0, blockTokens(prompt) - cached)
      await write(response, { path, body, answer, counts: { prompt: prompt.tokens, cached, created, output }, fault })
    } finally {
      this.#running--
    }
  }
}

/** As a server in front of an engine answers: without `retry-after`. */
const BUSY = { error: { message: 'Too many requests in flight', type: 'TooManyRequests', param: null, code: 429 } }

interface FakeAnswer {
  readonly path: string
  readonly body: Body
  readonly answer: Answer
  readonly counts: Counts
  readonly fault: Fault | null
}

async function write(response: ServerResponse, { path, body, answer, counts, fault }: FakeAnswer): Promise<void> {
  const writer = writerOf(path)
  const options = body['stream_options'] as { include_usage?: unknown } | undefined
  const named = { id: randomUUID(), model: MODEL, includeUsage: options?.include_usage === true }
  if (body['stream'] !== true) {
    if (fault !== null) return json(response, 500, { error: { message: 'engine core died', code: 500 } })
    return json(response, 200, writer.whole(answer, counts, named))
  }
  const events = writer.events(answer, counts, named)
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
  if (fault === 'error_event') return void response.end(writer.error('engine core died'))
  // Within the first block: Claude Code ends its turn if a stream breaks after a complete one, whatever it receives.
  const sent = fault === 'broken_stream' ? events.slice(0, writer.untilOutput) : events
  for (const event of sent) {
    response.write(event)
    await sleep(TOKEN_MS)
  }
  if (fault === 'broken_stream') response.destroy()
  else response.end()
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, JSON_TYPE).end(JSON.stringify(body))
}
