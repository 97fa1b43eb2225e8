/** Stub servers: a table of responses by path. */
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { readFileSync } from 'node:fs'
import { bodyText, type Exchange, type VectorFile } from '../../../packages/bench/conformance/vector.ts'
import { certificate } from './certificate.ts'

export interface Said {
  readonly status?: number
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** Sends no response. */
  readonly silent?: true
}

/** `METHOD /path` (without the query) → response; absent: FastAPI's 404. */
export type Table = Readonly<Record<string, Said | ((request: IncomingMessage, body: string) => Said)>>

export interface Stub {
  readonly url: string
  readonly asked: string[]
  close(): void
}

const open = new Set<Server>()

export async function stub(table: Table, tls = false): Promise<Stub> {
  const asked: string[] = []
  const server = (
    tls
      ? (handler: Parameters<typeof createServer>[1]) => createTlsServer(certificate, handler!)
      : (handler: Parameters<typeof createServer>[1]) => createServer(handler)
  )((request, response) => {
    void readAll(request).then((body) => {
      const { pathname } = new URL(request.url!, 'http://stub')
      asked.push(`${request.method} ${pathname}`)
      const entry = table[`${request.method} ${pathname}`] ?? { status: 404, body: { detail: 'Not Found' } }
      const {
        status = 200,
        body: said = '',
        headers = {},
        silent,
      } = typeof entry === 'function' ? entry(request, body) : entry
      if (silent) return
      response.writeHead(status, headers).end(typeof said === 'string' ? said : JSON.stringify(said))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  open.add(server)
  return {
    url: `${tls ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    close: () => end(server),
  }
}

/** For `afterEach`. */
export function closeStubs(): void {
  for (const server of open) end(server)
}

function end(server: Server): void {
  open.delete(server)
  server.close()
  server.closeAllConnections()
}

async function readAll(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of request) pieces.push(piece as Buffer)
  return Buffer.concat(pieces).toString('utf8')
}

interface Recorded {
  readonly metrics: string
  readonly server_info: {
    readonly vllm_config: { readonly [section: string]: Readonly<Record<string, unknown>> | null }
  }
  readonly tokenize: { readonly tokens: readonly number[] }
  readonly tokenize_chat: { readonly tokens: readonly number[] }
}

const read = (file: string): string => readFileSync(new URL(file, import.meta.url), 'utf8')
export const recorded = JSON.parse(read('./recorded.json')) as Recorded
const exchanges = new Map(
  (JSON.parse(read('../../vectors/openai.json')) as VectorFile).exchanges.map((exchange) => [exchange.name, exchange]),
)

/** Response recorded from vLLM under that name. */
function replayed(name: string): (request: IncomingMessage) => Said {
  const { response } = exchanges.get(name) as Exchange
  return (request) => ({ status: response.status, body: bodyText(response), headers: echo(request) })
}

/** Effect of `--enable-request-id-headers`. */
const echo = (request: IncomingMessage): Record<string, string> => ({
  'x-request-id': String(request.headers['x-request-id']),
})

/** vLLM 0.32 with the flags of the conformance run, as recorded. */
export const realVllm: Table = {
  'GET /health': replayed('health'),
  'GET /version': replayed('version'),
  'GET /v1/models': replayed('models'),
  'GET /is_paused': replayed('is-paused'),
  'GET /is_sleeping': replayed('is-sleeping'),
  'GET /kv_event_sources': replayed('kv-event-sources'),
  'GET /metrics': { body: recorded.metrics },
  'GET /server_info': { body: recorded.server_info },
  'GET /start_profile': { status: 404, body: { detail: 'Not Found' } },
  'POST /v1/completions': replayed('completion'),
  'POST /tokenize': (_, body) => ({ body: body.includes('"messages"') ? recorded.tokenize_chat : recorded.tokenize }),
}

/** JSON of a recorded response, for changes. */
export const jsonOf = (name: string): Record<string, unknown> =>
  JSON.parse(bodyText((exchanges.get(name) as Exchange).response)) as Record<string, unknown>
