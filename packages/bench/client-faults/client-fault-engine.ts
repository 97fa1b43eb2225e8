/** A scripted engine that fails as the prompt of a request says. */
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type LocalServer, serveLocally } from '../../../test/kit/local-server.ts'
import { writerOf } from '../field-agents/answer-writers.ts'
import { ANSWER, faultIn } from './faults.ts'

export const MODEL = 'm'
/** Events of an output that breaks. */
const SENT_OUTPUTS = 3
const EVENT_MS = 2
const COUNTS = { prompt: 8, cached: 0, created: 0, output: 20 }
const HTML = '<!doctype html><html><body><h1>Sign in</h1></body></html>'
const ERROR = { error: { message: 'engine core died', type: 'InternalServerError', param: null, code: 500 } }
const BUSY = { error: { message: 'Too many requests', type: 'TooManyRequests', param: null, code: 429 } }
export const RETRY_AFTER_S = 7

export class ClientFaultEngine {
  /** Requests by fault. */
  readonly requests = new Map<string, number>()
  #server!: LocalServer

  private constructor() {}

  static async open(): Promise<ClientFaultEngine> {
    const engine = new ClientFaultEngine()
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
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const body = Buffer.concat(parts).toString()
    const path = (request.url ?? '').split('?')[0]!
    const fault = faultIn(body)
    if (request.method !== 'POST' || fault === null)
      return json(response, 200, { object: 'list', data: [{ id: MODEL, object: 'model' }] })
    this.requests.set(fault, (this.requests.get(fault) ?? 0) + 1)
    await answer(response, { path, fault, stream: (JSON.parse(body) as { stream?: unknown }).stream === true })
  }
}

interface Ask {
  readonly path: string
  readonly fault: string
  readonly stream: boolean
}

async function answer(response: ServerResponse, { path, fault, stream }: Ask): Promise<void> {
  const kind = fault.replace('whole_', '')
  if (kind === 'html') return void response.writeHead(200, { 'content-type': 'text/html' }).end(HTML)
  if (kind === 'busy') return json(response, 429, BUSY, { 'retry-after': String(RETRY_AFTER_S) })
  if (kind === 'error') return json(response, 200, ERROR)
  const writer = writerOf(path)
  const options = { id: randomUUID(), model: MODEL, includeUsage: true }
  const whole = { text: ANSWER, call: null }
  if (!stream) {
    const text = JSON.stringify(writer.whole(whole, COUNTS, options))
    if (kind === 'none') return void response.writeHead(200, JSON_TYPE).end(text)
    response.writeHead(200, { ...JSON_TYPE, 'content-length': Buffer.byteLength(text) })
    response.write(text.slice(0, text.indexOf('the last')))
    await sleep(EVENT_MS)
    return void response.destroy()
  }
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
  if (kind === 'error_first') return void response.end(writer.error('engine core died'))
  if (kind === 'empty') return void response.end()
  const events = writer.events(whole, COUNTS, options)
  for (const event of kind === 'none' ? events : events.slice(0, writer.untilOutput + SENT_OUTPUTS)) {
    response.write(event)
    await sleep(EVENT_MS)
  }
  if (kind === 'cut') response.destroy()
  else response.end(kind === 'error_mid' ? writer.error('engine core died') : undefined)
}

const JSON_TYPE = { 'content-type': 'application/json' }

function json(response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}): void {
  response.writeHead(status, { ...JSON_TYPE, ...headers }).end(JSON.stringify(body))
}
