/** A fixed address in front of a server that can change, be slow, or be down. */
import { createServer, request } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Relay {
  readonly url: string
  /** Base URL, with or without a path prefix; null: connections are refused. */
  target: string | null
  /** Delay before each response. */
  delayMs: number
  /** `METHOD path status`, the last 500. */
  readonly passed: string[]
  /** The same exchanges with bodies, the last 500. */
  readonly exchanges: RelayedCall[]
  close(): void
}

export interface RelayedCall {
  readonly method: string
  readonly path: string
  readonly request: string
  readonly status: number
  readonly response: string
}

const kept = 500

export async function openRelay(target: string | null): Promise<Relay> {
  const server = createServer((incoming, outgoing) => {
    pass(relay, incoming, outgoing).catch(() => outgoing.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  // It does not keep the process alive.
  server.unref()
  const relay: Relay = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    target,
    delayMs: 0,
    passed: [],
    exchanges: [],
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
  return relay
}

async function pass(
  { target, delayMs, passed, exchanges }: Relay,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  if (target === null) {
    passed.push(`${incoming.method} ${incoming.url} refused`)
    return void outgoing.destroy()
  }
  const pieces: Buffer[] = []
  for await (const piece of incoming) pieces.push(piece as Buffer)
  const sent = Buffer.concat(pieces)
  const { status, headers, body } = await forward(`${target}${incoming.url}`, incoming, sent)
  passed.push(`${incoming.method} ${incoming.url} ${status}`)
  exchanges.push({
    method: incoming.method!,
    path: incoming.url!,
    request: sent.toString('utf8'),
    status,
    response: body.toString('utf8'),
  })
  if (passed.length > kept) passed.shift()
  if (exchanges.length > kept) exchanges.shift()
  if (delayMs > 0) await sleep(delayMs)
  outgoing.writeHead(status, {
    'content-type': String(headers['content-type'] ?? 'application/json'),
    'content-length': body.length,
  })
  outgoing.end(body)
}

function forward(
  url: string,
  { method, headers }: IncomingMessage,
  body: Buffer,
): Promise<{ status: number; headers: IncomingMessage['headers']; body: Buffer }> {
  return new Promise((resolve, reject) => {
    const { 'transfer-encoding': _, connection: __, ...passedOn } = headers
    const sent = request(
      url,
      {
        method: method!,
        headers: { ...passedOn, host: new URL(url).host, 'content-length': body.length },
        agent: false,
      },
      (response) => {
        const pieces: Buffer[] = []
        response.on('data', (piece: Buffer) => pieces.push(piece))
        response.on('end', () =>
          resolve({ status: response.statusCode!, headers: response.headers, body: Buffer.concat(pieces) }),
        )
        response.on('error', reject)
      },
    )
    sent.once('error', reject)
    sent.end(body)
  })
}
