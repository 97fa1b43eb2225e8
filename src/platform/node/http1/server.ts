/**
 * Server for plain HTTP/1.1 requests to engines: it calls their handlers without objects of node:http or the web.
 * A connection with any other request is handed to node:http. See README.md.
 */
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { isInferencePath } from '../../../api/endpoints.ts'
import type { Gateway } from '../../../gateway.ts'
import type { Log, RequestScope } from '../../../ports.ts'
import type { HttpErrorReason } from '../inbound/http-errors.ts'
import { type HttpTimeouts, Http1Connection } from './server-connection.ts'
import type { Http1ServerRequest } from './server-request.ts'
import { BODILESS } from '../../../origin/relay/pull-answer.ts'
import type { ResponseWriter, SocketResponseWriter } from './response-writer.ts'

/** Pieces that are read before the head is written: a body that ends within them gets a content-length. */
const PIECES_AT_ONCE = 3

/** Writes a web Response. A body that fails cuts the connection, so that the client does not take it for complete. */
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
  await pipeBody(reader, next, line).then(
    () => line.end(),
    () => line.destroy(),
  )
}

type Reader = ReadableStreamDefaultReader<Uint8Array>
type Reading = ReturnType<Reader['read']>

/** Pieces that need no waiting. `next`: the read that is pending; null: the body has ended. */
async function atOnce(reader: Reader): Promise<{ readonly pieces: Uint8Array[]; readonly next: Reading | null }> {
  const pieces: Uint8Array[] = []
  while (pieces.length < PIECES_AT_ONCE) {
    const next = reader.read()
    const read = await Promise.race([next, nextTurn()])
    if (read === null) return { pieces, next }
    if (read.done) return { pieces, next: null }
    pieces.push(read.value)
  }
  return { pieces, next: reader.read() }
}

const nextTurn = (): Promise<null> => new Promise((resolve) => setImmediate(() => resolve(null)))

async function pipeBody(reader: Reader, first: Reading, line: ResponseWriter): Promise<void> {
  for (let next = first; ; next = reader.read()) {
    const { done, value } = await next
    if (done) return
    if (line.gone) return void reader.cancel().catch(() => undefined)
    if (!line.write(value, false)) await new Promise<void>((resolve) => line.drained(resolve))
  }
}

export interface Http1ServerParts {
  readonly gateway: Pick<Gateway, 'fetch'>
  readonly timeouts: HttpTimeouts
  /** false: the connection was refused and is not served. Absent: all are served. */
  readonly admits?: (socket: Socket) => boolean
  readonly scopeOf: (line: SocketResponseWriter, socket: Socket) => RequestScope
  /** Answers a request that cannot be served, and ends the connection. */
  readonly refuse: (reason: HttpErrorReason, socket: Socket) => void
  readonly log: Log
}

export class Http1Server {
  readonly #parts: Http1ServerParts
  readonly #connections = new Set<Http1Connection>()

  constructor(parts: Http1ServerParts) {
    this.#parts = parts
  }

  /** Reads the connections of `server` first, and hands those that are not plain back to it. */
  takeConnections(server: Server): void {
    const [toHttp] = server.listeners('connection')
    server.off('connection', toHttp as () => void)
    server.on('connection', (socket) => {
      if (this.#parts.admits?.(socket) !== false) this.#open(socket, (left) => toHttp!.call(server, left))
    })
  }

  /** Closes connections: those with a request after its response, the others now. */
  endSoon(): void {
    for (const connection of this.#connections) connection.endSoon()
  }

  destroyAll(): void {
    for (const connection of this.#connections) connection.destroy()
  }

  #open(socket: Socket, toHttp: (socket: Socket) => void): void {
    const { timeouts, refuse } = this.#parts
    const connection = new Http1Connection({
      socket,
      timeouts,
      serves: isInferencePath,
      serve: (request, line) => this.#serve(request, line),
      handOver: () => {
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
    gateway
      .fetch(request, scopeOf(line, line.socket))
      .then((response) => (response === RESPONSE_ALREADY_SENT ? undefined : answer(response, line)))
      .catch((error: unknown) => {
        log.error('answer_failed', { error })
        line.destroy()
      })
  }
}

/** Writes a response that was not written to the client's socket as it arrived. */
async function answer(response: Response, line: SocketResponseWriter): Promise<void> {
  // Another response has begun: a cut, so that the client does not take it for complete.
  if (line.begun) line.destroy()
  else await writeResponse(response, line)
}
