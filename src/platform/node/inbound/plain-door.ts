/**
 * The way in for requests that go to engines: from the client's socket to the handlers that Hono calls for them, past
 * node:http and web objects. It takes connections that speak plainly and leaves the rest to node:http and the adapter.
 */
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Gateway } from '../../../gateway.ts'
import type { Log, RequestScope } from '../../../ports.ts'
import type { HttpErrorReason } from './http-errors.ts'
import { type Patience, PlainConnection } from './plain-connection.ts'
import type { PlainLine } from './plain-line.ts'
import type { PlainRequest } from './plain-request.ts'
import { writeResponse } from './write-response.ts'

export interface PlainDoorParts {
  readonly gateway: Pick<Gateway, 'posts'>
  readonly patience: Patience
  readonly scopeOf: (line: PlainLine, socket: Socket) => RequestScope
  /** Answers a request that cannot be served, and ends the connection. */
  readonly refuse: (reason: HttpErrorReason, socket: Socket) => void
  readonly log: Log
}

export class PlainDoor {
  readonly #parts: PlainDoorParts
  readonly #connections = new Set<PlainConnection>()

  constructor(parts: PlainDoorParts) {
    this.#parts = parts
  }

  /** Takes the server's connections over; it gets back those that are not plain. */
  before(server: Server): void {
    const [toHttp] = server.listeners('connection')
    server.off('connection', toHttp as () => void)
    server.on('connection', (socket) => this.#open(socket, (left) => toHttp!.call(server, left)))
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
    const connection = new PlainConnection({
      socket,
      patience,
      takes: (url) => gateway.posts.has(url),
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

  #serve(request: PlainRequest, line: PlainLine): void {
    const { gateway, scopeOf, log } = this.#parts
    gateway.posts
      .get(request.url)!(request, scopeOf(line, line.socket))
      .then((response) => (response === RESPONSE_ALREADY_SENT ? undefined : answer(response, line)))
      .catch((error: unknown) => {
        log.error('answer_failed', { error })
        line.destroy()
      })
  }
}

/** Refusals, and what else did not go to the client's socket by itself. */
async function answer(response: Response, line: PlainLine): Promise<void> {
  // Too late for an answer: what was begun must not look complete.
  if (line.begun) line.destroy()
  else await writeResponse(response, line)
}
