/** A raw client, and between it and an engine the own HTTP/1.1 client and server. */
import { ownRequest } from '../../../src/origin/own-request.ts'
import { chat } from '../../../src/protocols/chat.ts'
import net from 'node:net'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { serve } from '@hono/node-server'
import type { FakeEngine } from '../../kit/fake-engine.ts'
import { type NodeOrigin, socketOrigin } from '../../../src/platform/node/http1/origin.ts'
import { type OriginAnswer, OriginError } from '../../../src/ports/origin.ts'
import type { RelayResult } from '../../../src/ports/relay.ts'

export interface WireOptions {
  hideUsage?: boolean
  checksEnd?: boolean
  onResponseId?: (id: string) => void
  firstByteMs?: number
  idleMs?: number
  heartbeatMs?: number
  /** Calls `send`, `firstByte` and `pass` one after the other, instead of in the tick in which the response begins. */
  inSteps?: boolean
  /** In steps, with `pass` before the first byte, as for a heartbeat. */
  early?: boolean
  /** Certificate authorities for https. */
  ca?: string
  /** Settings of the server for clients; absent: HTTP/1.1 without TLS. */
  context?: Pick<Parameters<typeof serve>[0], 'createServer' | 'serverOptions'>
}

export interface Wire {
  readonly port: number
  readonly options: WireOptions
  readonly ends: RelayResult[]
  readonly failures: OriginError[]
  readonly origin: NodeOrigin
  close(): Promise<void>
}

/** A gateway that only relays. */
export async function openWire(engine: FakeEngine, options: WireOptions = {}): Promise<Wire> {
  const origin = socketOrigin(options.ca === undefined ? {} : { ca: options.ca })
  const ends: RelayResult[] = []
  const failures: OriginError[] = []
  const wire = { options, ends, failures, origin }
  const server = serve({
    ...(options.context as object),
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request, env) => {
      const gone = new AbortController()
      ;(env as { outgoing: import('node:http').ServerResponse }).outgoing.on('close', () =>
        gone.abort(new Error('client gone')),
      )
      const body = new Uint8Array(await request.arrayBuffer())
      try {
        const target = { id: 'a', url: engine.url, headers: [], binding: null }
        const sent = ownRequest(target, new URL(request.url).pathname, {
          json: body,
          connectMs: 5000,
          limitMs: options.firstByteMs ?? 5000,
          signal: gone.signal,
        })
        const pass = (answer: OriginAnswer): Response =>
          answer.pass({
            scope: { background: () => {}, client: env },
            status: answer.status,
            headers: [...answer.headers, 'x-ours', 'yes'],
            protocol: chat,
            observe: true,
            hideUsage: options.hideUsage ?? false,
            checksEnd: options.checksEnd ?? false,
            ...(options.onResponseId === undefined ? {} : { onResponseId: options.onResponseId }),
            heartbeatMs: options.heartbeatMs ?? 0,
            idleMs: options.idleMs ?? 5000,
            firstEvents: 0,
            onEvents: () => Infinity,
            onFirstByte: () => {},
            truncationEvent: (failure) => new TextEncoder().encode(`data: {"error":"${failure}"}\n\n`),
            settled: (end) => void ends.push(end),
          })
        if (options.inSteps !== true && options.early !== true) {
          return await new Promise<Response>((resolve, reject) =>
            origin.begin!(sent, {
              patienceMs: 0,
              head: () => true,
              firstByte: (answer) => resolve(pass(answer)),
              failed: reject,
            }),
          )
        }
        const answer = await origin.send(sent)
        if (options.early !== true) await answer.firstByte()
        return pass(answer)
      } catch (error) {
        if (error instanceof OriginError) failures.push(error)
        return new Response(error instanceof OriginError ? error.failure : 'gone', { status: 502 })
      }
    },
  })
  await once(server, 'listening')
  return {
    ...wire,
    port: (server.address() as AddressInfo).port,
    close: async () => {
      origin.close()
      ;(server as import('node:http').Server).closeAllConnections?.()
      server.close()
      await once(server, 'close')
    },
  }
}

export interface RawAnswer {
  readonly head: string
  /** Body without its framing. */
  readonly body: string
  /** Whether the message ended as its framing requires. */
  readonly whole: boolean
  readonly raw: string
}

export const REQUEST_BODY = '{"model":"m","stream":true}'

export function requestText(version = '1.1', body = REQUEST_BODY): string {
  return `POST /v1/chat/completions HTTP/${version}\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
}

/**
 * Sends one request and reads to the end of the message or of the connection.
 * @param onBody called with the body so far, as soon as there is one, whenever bytes have arrived
 */
export async function ask(port: number, text = requestText(), onBody?: (body: string) => void): Promise<RawAnswer> {
  const socket = net.connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(text)
  let raw = ''
  for await (const bytes of socket) {
    raw += (bytes as Buffer).toString('latin1')
    const parsed = parseRaw(raw)
    if (parsed.whole) break
    if (parsed.body !== '') onBody?.(parsed.body)
  }
  socket.destroy()
  return parseRaw(raw)
}

export function parseRaw(raw: string): RawAnswer {
  const end = raw.indexOf('\r\n\r\n')
  if (end < 0) return { head: raw, body: '', whole: false, raw }
  const head = raw.slice(0, end).toLowerCase()
  const rest = raw.slice(end + 4)
  if (head.startsWith('http/1.1 204')) return { head, body: '', whole: true, raw }
  const length = /content-length: (\d+)/.exec(head)
  if (length !== null)
    return { head, body: rest.slice(0, Number(length[1])), whole: rest.length >= Number(length[1]), raw }
  if (!head.includes('transfer-encoding: chunked')) return { head, body: rest, whole: false, raw }
  let body = ''
  let at = 0
  for (;;) {
    const line = rest.indexOf('\r\n', at)
    if (line < 0) return { head, body, whole: false, raw }
    const size = /^[0-9a-f]{1,8}(?:;.*)?$/i.test(rest.slice(at, line))
      ? Number.parseInt(rest.slice(at, line), 16)
      : Number.NaN
    if (Number.isNaN(size)) throw new Error(`broken framing at ${at}: ${JSON.stringify(rest.slice(at, at + 40))}`)
    if (size === 0) return { head, body, whole: rest.startsWith('\r\n', line + 2), raw }
    if (rest.length < line + 2 + size + 2)
      return { head, body: body + rest.slice(line + 2, line + 2 + size), whole: false, raw }
    if (rest.slice(line + 2 + size, line + 4 + size) !== '\r\n') throw new Error('a chunk does not end with CRLF')
    body += rest.slice(line + 2, line + 2 + size)
    at = line + 4 + size
  }
}

export function chunked(pieces: readonly string[], extension = '', trailers = ''): string {
  return `${pieces.map((piece) => `${piece.length.toString(16)}${extension}\r\n${piece}\r\n`).join('')}0\r\n${trailers}\r\n`
}
