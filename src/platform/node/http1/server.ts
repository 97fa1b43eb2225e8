/**
 * The way in for requests that go to engines: from the client's socket to the handlers that Hono calls for them, past
 * node:http and web objects. It takes connections that speak plainly and leaves the rest to node:http and the adapter.
 */
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Gateway } from '../../../gateway.ts'
import type { Log, RequestScope } from '../../../ports.ts'
import type { HttpErrorReason } from '../inbound/http-errors.ts'
import { type HttpTimeouts, Http1Connection } from './server-connection.ts'
import type { Http1ServerRequest } from './server-request.ts'
import { BODILESS } from '../../../origin/relay/pull-answer.ts'
import type { ResponseWriter, SocketResponseWriter } from './response-writer.ts'

/* Writes a web Response to a client: refusals, and streams that something of ours is added to. */

/** Pieces that are waited for, without waiting, before the head says how long the body is. */
const PIECES_AT_ONCE = 3

/** A body that breaks ends the connection: what was begun must not look complete. */
export async function writeResponse(response: Response, line: ResponseWriter): Promise<void> {
  const headers: string[] = []
  response.headers.forEach((value, name) => headers.push(name, value))
  if (response.body === null) {
    if (!BODILESS.has(response.status)) headers.push('content-length', '0')
    line.head(response.status, headers, true)
    return line.end()
  }
  const reader = response.body.getReader()
  const { pieces, next } = await atOnce(reader)
  if (next === null && !response.headers.has('content-length'))
    headers.push('content-length', String(pieces.reduce((size, { length }) => size + length, 0)))
  line.head(response.status, headers, false)
  for (const piece of pieces) line.write(piece, false)
  if (next === null) return line.end()
  line.flush()
  await pump(reader, next, line).then(
    () => line.end(),
    () => line.destroy(),
  )
}

type Reader = ReadableStreamDefaultReader<Uint8Array>
type Reading = ReturnType<Reader['read']>

/** What is there already. `next`: the read that still waits; null: that was all. */
async function atOnce(reader: Reader): Promise<{ readonly pieces: Uint8Array[]; readonly next: Reading | null }> {
  const pieces: Uint8Array[] = []
  while (pieces.length < PIECES_AT_ONCE) {
    const next = reader.read()
    const read = await Promise.race([next, turn()])
    if (read === null) return { pieces, next }
    if (read.done) return { pieces, next: null }
    pieces.push(read.value)
  }
  return { pieces, next: reader.read() }
}

const turn = (): Promise<null> => new Promise((resolve) => setImmediate(() => resolve(null)))

async function pump(reader: Reader, first: Reading, line: ResponseWriter): Promise<void> {
  for (let next = first; ; next = reader.read()) {
    const { done, value } = await next
    if (done) return
    if (line.gone) return void reader.cancel().catch(() => undefined)
    if (!line.write(value, false)) await new Promise<void>((resolve) => line.drained(resolve))
  }
}

export interface PlainDoorParts {
  readonly gateway: Pick<Gateway, 'inferenceHandlers'>
  readonly patience: HttpTimeouts
  /** false: the connection is answered elsewhere. Absent: all are served. */
  readonly admits?: (socket: Socket) => boolean
  readonly scopeOf: (line: SocketResponseWriter, socket: Socket) => RequestScope
  /** Answers a request that cannot be served, and ends the connection. */
  readonly refuse: (reason: HttpErrorReason, socket: Socket) => void
  readonly log: Log
}

export class Http1Server {
  readonly #parts: PlainDoorParts
  readonly #connections = new Set<Http1Connection>()

  constructor(parts: PlainDoorParts) {
    this.#parts = parts
  }

  /** Takes the server's connections over; it gets back those that are not plain. */
  before(server: Server): void {
    const [toHttp] = server.listeners('connection')
    server.off('connection', toHttp as () => void)
    server.on('connection', (socket) => {
      if (this.#parts.admits?.(socket) !== false) this.#open(socket, (left) => toHttp!.call(server, left))
    })
  }

  /** Connections that serve a request finish it; the others end now. */
  endSoon(): void {
    for (const connection of this.#connections) connection.endSoon()
  }

  destroyAll(): void {
    for (const connection of this.#connections) connection.destroy()
  }

  #open(socket: Socket, toHttp: (socket: Socket) => void): void {
    const { gateway, patience, refuse } = this.#parts
    const connection = new Http1Connection({
      socket,
      patience,
      takes: (url) => gateway.inferenceHandlers.has(url),
      serve: (request, line) => this.#serve(request, line),
      leave: () => {
        this.#connections.delete(connection)
        toHttp(socket)
      },
      refuse: (reason) => refuse(reason, socket),
      closed: () => this.#connections.delete(connection),
    })
    this.#connections.add(connection)
  }

  #serve(request: Http1ServerRequest, line: SocketResponseWriter): void {
    const { gateway, scopeOf, log } = this.#parts
    gateway.inferenceHandlers.get(request.url)!(request, scopeOf(line, line.socket))
      .then((response) => (response === RESPONSE_ALREADY_SENT ? undefined : answer(response, line)))
      .catch((error: unknown) => {
        log.error('answer_failed', { error })
        line.destroy()
      })
  }
}

/** Refusals, and what else did not go to the client's socket by itself. */
async function answer(response: Response, line: SocketResponseWriter): Promise<void> {
  // Too late for an answer: what was begun must not look complete.
  if (line.begun) line.destroy()
  else await writeResponse(response, line)
}
