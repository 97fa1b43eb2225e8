/** Requests that are not valid HTTP: response, log line and count. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type FailureReason, failures } from '../../../failure.ts'
import type { Log } from '../../../ports/log.ts'
import { LimitedLine } from './limited-line.ts'

/** Reason of a request that was rejected before it reached a route. */
export type HttpErrorReason = Extract<
  FailureReason,
  'bad_http' | 'request_timeout' | 'expectation_unmet' | 'head_too_large' | 'transfer_encoding'
>

interface HttpErrorsParts {
  readonly count: (reason: HttpErrorReason) => void
  readonly log: Log
  readonly now: () => number
}

const REASONS: Readonly<Record<string, HttpErrorReason>> = {
  HPE_HEADER_OVERFLOW: 'head_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
}

const MESSAGES: Readonly<Record<HttpErrorReason, string>> = {
  bad_http: 'The request is not valid HTTP.',
  request_timeout: 'The request did not arrive in time.',
  expectation_unmet: 'The only supported expectation is 100-continue.',
  head_too_large: 'The request headers are too large.',
  transfer_encoding: 'The only supported transfer-encoding is chunked. Send the body uncompressed.',
}

const STATUS_LINES: Readonly<Record<number, string>> = {
  400: '400 Bad Request',
  408: '408 Request Timeout',
  417: '417 Expectation Failed',
  431: '431 Request Header Fields Too Large',
  501: '501 Not Implemented',
}

export const JSON_TYPE = { 'content-type': 'application/json' }

/** Body of an error response, in OpenAI's format. */
export const errorBody = (reason: HttpErrorReason, message = MESSAGES[reason]): string =>
  JSON.stringify({ error: { message, type: failures[reason].type, param: null, code: failures[reason].code } })

/** Response to a connection beyond `limits.connections`. */
export const CONNECTIONS_FULL = ((): string => {
  const { status, type, code } = failures.connections_full
  const message = 'The gateway has as many client connections as it can serve. Try again shortly.'
  const body = JSON.stringify({ error: { message, type, param: null, code } })
  return (
    `HTTP/1.1 ${status} Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: ` +
    `${body.length}\r\nretry-after: 1\r\nx-should-retry: true\r\nconnection: close\r\n\r\n${body}`
  )
})()

interface Exchange {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
}

interface Connection {
  /** Requests without a complete response, in order. */
  readonly open: Set<Exchange>
  /** Set when the bytes behind the open requests are malformed. */
  refused: boolean
}

export class HttpErrors {
  readonly #parts: HttpErrorsParts
  readonly #connections = new WeakMap<Socket, Connection>()
  readonly #line: LimitedLine

  constructor(parts: HttpErrorsParts) {
    this.#parts = parts
    const { log, now } = parts
    this.#line = new LimitedLine((fields) => log.info('request_malformed', fields), now)
  }

  /** Remembers a request that node:http has parsed until its response is complete. */
  watch(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { socket } = incoming
    let connection = this.#connections.get(socket)
    if (connection === undefined) this.#connections.set(socket, (connection = { open: new Set(), refused: false }))
    const exchange = { incoming, outgoing }
    const { open } = connection
    open.add(exchange)
    outgoing.once('close', () => open.delete(exchange))
  }

  /** Rejects a request whose head node:http accepts, and closes its connection. */
  refuse(reason: HttpErrorReason, { incoming, outgoing }: Exchange): void {
    this.note(reason, incoming.socket)
    outgoing.writeHead(failures[reason].status, { ...JSON_TYPE, connection: 'close' }).end(errorBody(reason))
  }

  /**
   * Handles `clientError` of node:http. Complete requests in front of the malformed bytes are answered first: an engine
   * may be at work on them.
   */
  readonly onClientError = (error: Error & { readonly code?: string }, socket: Socket): void => {
    const connection = this.#connections.get(socket)
    if (connection?.refused) return
    if (connection !== undefined) connection.refused = true
    const { code } = error
    // The client closed, or sent bytes behind a request with `connection: close`: node:http ends the connection after
    // its response.
    if (!socket.writable || code === 'ECONNRESET') return void socket.destroy()
    const complete = [...(connection?.open ?? [])].filter(({ incoming }) => incoming.complete)
    if (code === 'HPE_CLOSED_CONNECTION' && complete.length > 0) return
    const reason = REASONS[code ?? ''] ?? 'bad_http'
    this.note(reason, socket, code)
    if (complete.length === 0) return this.#end(reason, socket)
    let left = complete.length
    for (const { outgoing } of complete) outgoing.once('close', () => --left === 0 && this.#end(reason, socket))
  }

  /** Rejects a request on a connection that http1 reads. */
  end(reason: HttpErrorReason, socket: Socket): void {
    this.note(reason, socket)
    this.#end(reason, socket)
  }

  #end(reason: HttpErrorReason, socket: Socket): void {
    const [broken] = this.#connections.get(socket)?.open ?? []
    // A second head in the middle of a response would be read as its body.
    if (!socket.writable || broken?.outgoing.headersSent) return void socket.destroy()
    const body = errorBody(reason)
    socket.end(
      `HTTP/1.1 ${STATUS_LINES[failures[reason].status]!}\r\ncontent-type: application/json\r\ncontent-length: ` +
        `${body.length}\r\nconnection: close\r\n\r\n${body}`,
    )
  }

  /** Counts one, and logs it unless a line was just written. */
  note(reason: HttpErrorReason, socket: Socket | null, code?: string): void {
    this.#parts.count(reason)
    this.#line.write({
      status: failures[reason].status,
      reason,
      ...(code === undefined ? {} : { code }),
      remote: socket?.remoteAddress ?? null,
    })
  }
}
