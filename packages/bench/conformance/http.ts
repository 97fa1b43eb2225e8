/** Plain HTTP over node:http: exact bytes and headers, and a disconnect at any moment. */
import { request } from 'node:http'
import { createServer } from 'node:net'
import type { AddressInfo, Server } from 'node:net'
import type { ClientRequest, IncomingMessage } from 'node:http'

export interface HttpRequest {
  /** Base URL. */
  readonly url: string
  readonly method: 'GET' | 'POST' | 'DELETE' | 'PUT' | 'OPTIONS'
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  /** Objects are sent as JSON, strings and bytes unchanged. */
  readonly body?: unknown
  readonly limitMs?: number
}

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** Returns the whole response. Rejects if it takes longer than `limitMs` (60 s) or the connection breaks. */
export async function send(ask: HttpRequest): Promise<Answer> {
  const { response } = await open(ask)
  const pieces: Buffer[] = []
  for await (const piece of response) pieces.push(piece as Buffer)
  return { status: response.statusCode!, headers: flat(response), body: Buffer.concat(pieces) }
}

/** Resolves with the head; the caller reads the body, or destroys the request to disconnect. */
export function open(ask: HttpRequest): Promise<{ readonly sent: ClientRequest; readonly response: IncomingMessage }> {
  return new Promise((resolve, reject) => {
    const body = ask.body === undefined ? null : written(ask.body)
    const headers: Record<string, string> = {
      ...(body === null ? {} : { 'content-type': 'application/json' }),
      ...ask.headers,
    }
    const sent = request({
      ...place(ask),
      method: ask.method,
      headers,
      agent: false,
      signal: AbortSignal.timeout(ask.limitMs ?? 60_000),
    })
    sent.once('error', reject)
    sent.once('response', (response) => resolve({ sent, response }))
    sent.end(body ?? undefined)
  })
}

/** Sends without waiting for a response; `destroy()` the result to disconnect. */
export function dispatch(ask: HttpRequest): ClientRequest {
  const sent = request({
    ...place(ask),
    method: ask.method,
    headers: { 'content-type': 'application/json', ...ask.headers },
    agent: false,
  })
  sent.on('error', () => {})
  sent.on('response', (response) => response.on('error', () => {}).resume())
  sent.end(written(ask.body))
  return sent
}

const written = (body: unknown): string | Uint8Array =>
  typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)

/** Keeps the path unchanged: dots and double slashes are not resolved. */
function place({ url, path }: HttpRequest): { host: string; port: string; path: string } {
  const { hostname, port } = new URL(url)
  return { host: hostname, port, path }
}

function flat(response: IncomingMessage): Record<string, string> {
  return Object.fromEntries(
    Object.entries(response.headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(', ') : (value ?? ''),
    ]),
  )
}

/** Below the range of outgoing connections, so that a restarted server finds its port free. */
const portRange = { from: 15_000, count: 15_000 }

/** Returns free ports; all are held until the last is chosen, so that they differ. */
export async function freePorts(count: number): Promise<number[]> {
  const servers: Server[] = []
  while (servers.length < count) {
    const server = createServer()
    const port = portRange.from + Math.floor(Math.random() * portRange.count)
    const free = await new Promise<boolean>((resolve) =>
      server.once('error', () => resolve(false)).listen(port, '0.0.0.0', () => resolve(true)),
    )
    if (free) servers.push(server)
  }
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  return ports
}

/** The response's JSON. Rejects unless the status is 200. */
export async function sendJson<T>(ask: HttpRequest): Promise<T> {
  const { status, body } = await send(ask)
  if (status !== 200)
    throw new Error(`${ask.method} ${ask.path} answered ${status}: ${body.toString('utf8').slice(0, 300)}`)
  return JSON.parse(body.toString('utf8')) as T
}
