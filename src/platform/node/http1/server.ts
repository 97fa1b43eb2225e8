/**
 * Server for plain HTTP/1.1 requests to engines: it calls their handlers without objects of node:http or the web.
 * A connection with any other request is handed to node:http. See README.md.
 */
import type { Server } from 'node:http'
import { Server as TlsServer } from 'node:https'
import type { Socket } from 'node:net'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { endpointOf } from '../../../protocols/protocols.ts'
import type { Gateway } from '../../../gateway.ts'
import type { Log } from '../../../ports/log.ts'
import type { RequestScope } from '../../../ports/request-scope.ts'
import type { HttpErrorReason } from '../inbound/http-errors.ts'
import type { SocketResponseWriter } from './response-writer.ts'
import { type HttpTimeouts, ServerConnection } from './server-connection.ts'
import type { ServerRequest } from './server-request.ts'
import { writeResponse } from './write-response.ts'

interface Http1ServerParts {
  readonly gateway: Pick<Gateway, 'fetch'>
  readonly timeouts: HttpTimeouts
  /** false: the connection was refused and is not served. Absent: all are served. */
  readonly admits?: (socket: Socket) => boolean
  readonly scopeOf: (writer: SocketResponseWriter, socket: Socket) => RequestScope
  /** Answers a request that cannot be served, and ends the connection. */
  readonly refuse: (reason: HttpErrorReason, socket: Socket) => void
  readonly log: Log
}

export class Http1Server {
  readonly #parts: Http1ServerParts
  readonly #connections = new Set<ServerConnection>()

  constructor(parts: Http1ServerParts) {
    this.#parts = parts
  }

  /** Reads the connections of `server` first, and hands those that are not plain back to it. */
  takeConnections(server: Server | TlsServer): void {
    const event = server instanceof TlsServer ? 'secureConnection' : 'connection'
    const [toHttp] = server.listeners(event)
    server.off(event, toHttp as () => void)
    server.on(event, (socket: Socket) => {
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
    const connection = new ServerConnection({
      socket,
      timeouts,
      // A path with a query is left to node:http.
      serves: (path) => endpointOf(path)?.path === path,
      serve: (request, writer) => this.#serve(request, writer),
      leaveToNodeHttp: () => {
        this.#connections.delete(connection)
        toHttp(socket)
      },
      refuse: (reason) => refuse(reason, socket),
      closed: () => this.#connections.delete(connection),
    })
    this.#connections.add(connection)
  }

  #serve(request: ServerRequest, writer: SocketResponseWriter): void {
    const { gateway, scopeOf, log } = this.#parts
    const failed = (error: unknown): void => {
      log.error('answer_failed', { error })
      writer.destroy()
    }
    gateway.fetch(request, scopeOf(writer, writer.socket)).then((response) => {
      if (response !== RESPONSE_ALREADY_SENT) writeUnlessBegun(response, writer).catch(failed)
    }, failed)
  }
}

/** Writes a response that was not written to the client's socket as it arrived. */
async function writeUnlessBegun(response: Response, writer: SocketResponseWriter): Promise<void> {
  // Another response has begun. It is truncated, so that the client does not take it for complete.
  if (writer.begun) writer.destroy()
  else await writeResponse(response, writer)
}
