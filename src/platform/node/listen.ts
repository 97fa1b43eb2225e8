/** The gateway on a port: its HTTP servers, health checks by a timer, and shutdown. */
import { createServer, type RequestListener, type Server, type ServerOptions } from 'node:http'
import type { Server as TlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { getRequestListener, type HttpBindings, RequestError } from '@hono/node-server'
import { addressText } from '../../config/address.ts'
import type { FailureReason } from '../../failure.ts'
import type { Gateway } from '../../gateway.ts'
import type { Log } from '../../ports/log.ts'
import type { RequestScope } from '../../ports/request-scope.ts'
import { Background } from './background.ts'
import { type DrainResult, drainServer } from './drain.ts'
import { Http1Server } from './http1/server.ts'
import { ConnectionGuard, type ConnectionLimits } from './inbound/connection-guard.ts'
import type { CertificateFiles } from './inbound/certificate-files.ts'
import { CONNECTIONS_FULL, errorBody, HttpErrors, JSON_TYPE } from './inbound/http-errors.ts'
import { collecting, NodeBody } from './inbound/node-body.ts'
import { createTlsServer } from './inbound/tls-server.ts'
import { probeForever } from './probe-forever.ts'
import { steadyNow } from './steady-clock.ts'

export interface ListenOptions {
  readonly host: string
  readonly port: number
  /** Other threads of this process listen on the same port: the system distributes connections. */
  readonly reusePort?: boolean
  /** Time for running requests to finish at shutdown. */
  readonly drainMs: number
  readonly connectionLimits: ConnectionLimits
  /** Absent: plain HTTP. */
  readonly certificate?: CertificateFiles | null
  readonly log: Log
}

interface Listener {
  /** Address for clients: never 0.0.0.0. */
  readonly url: string
  /** Shuts down; `now` ends the waiting. A second call returns the same promise. */
  stop(now: AbortSignal): Promise<DrainResult>
}

/** Timeouts for a head, for a whole request, and for the next request on a connection. */
const HEAD_MS = 15_000

const REQUEST_MS = 300_000

/** Longer than the idle time of common load balancers (60 s), so that they close first. */
const IDLE_MS = 75_000

const SETTLE_MS = 5_000

const SERVER_OPTIONS: ServerOptions = {
  headersTimeout: HEAD_MS,
  requestTimeout: REQUEST_MS,
  keepAliveTimeout: IDLE_MS,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 32_768,
  // Rejected by `refuseTarget`, with an error in OpenAI's format.
  requireHostHeader: false,
  // As web headers do. Otherwise the first of two contradicting headers would count.
  joinDuplicateHeaders: true,
}

/** Connections that wait to be accepted; the system's own limit (`net.core.somaxconn`) may be lower. */
const BACKLOG = 4096

/** Resolves when the port is open; rejects with the system's error if it cannot be opened. */
export async function listen(
  gateway: Pick<Gateway, 'fetch' | 'probe' | 'drain' | 'state'>,
  options: ListenOptions,
): Promise<Listener> {
  const { log, certificate = null } = options
  const background = new Background((error) => log.error('background_failed', { error }))
  let isTruncating = false
  const addBackground: RequestScope['background'] = (work) => background.add(work)
  const isClosing = (): boolean => isTruncating
  const scopeOf = (client: unknown, { remoteAddress }: Socket): RequestScope => ({
    background: addBackground,
    client,
    remoteAddress: remoteAddress ?? null,
    isClosing,
  })
  const count = (reason: FailureReason): void => gateway.state.telemetry.countRefusal(reason)
  const errors = new HttpErrors({ count, log, now: steadyNow })
  let ended: Promise<DrainResult> | null = null
  // A client of HTTPS reads no plain response.
  const refusal = certificate === null ? CONNECTIONS_FULL : null
  const guard = new ConnectionGuard({ limits: () => options.connectionLimits, count, refusal, log })
  const listener = requestListener({ gateway, scopeOf, errors, isEnding: () => ended !== null })
  const server = createHttpServer(listener, { certificate, guard, errors, log })
  const http1 = new Http1Server({
    gateway,
    admits: (socket) => {
      // A handshake was admitted before it began.
      if (certificate === null && !guard.admits(socket)) return false
      guard.limitWrites(socket)
      return true
    },
    timeouts: { headMs: HEAD_MS, requestMs: REQUEST_MS, idleMs: IDLE_MS },
    scopeOf,
    refuse: (reason, socket) => errors.end(reason, socket),
    log,
  })
  http1.takeConnections(server)
  await open(server, options)
  const stopProbing = probeForever(gateway, log)
  return {
    url: `${certificate === null ? 'http' : 'https'}://${placeOf(server.address() as AddressInfo)}`,
    stop: (now) => {
      gateway.drain()
      stopProbing()
      ended ??= drainServer(
        { server, http1, background, beforeTruncation: () => void (isTruncating = true) },
        { drainMs: options.drainMs, settleMs: SETTLE_MS, now },
      )
      return ended
    },
  }
}

interface HttpServerParts extends Pick<ListenOptions, 'log'> {
  readonly certificate: CertificateFiles | null
  readonly guard: ConnectionGuard
  readonly errors: HttpErrors
}

function createHttpServer(
  listener: RequestListener,
  { certificate, guard, errors, log }: HttpServerParts,
): Server | TlsServer {
  const admits = (socket: Socket): boolean => guard.admits(socket)
  const server =
    certificate === null
      ? createServer(SERVER_OPTIONS, listener)
      : createTlsServer({ certificate, handshakeMs: HEAD_MS, admits, log }, SERVER_OPTIONS, listener)
  server.on('checkExpectation', (incoming, outgoing) => errors.refuse('expectation_unmet', { incoming, outgoing }))
  server.on('clientError', errors.onClientError as (error: Error, socket: Duplex) => void)
  return server
}

interface RequestListenerParts {
  readonly gateway: Pick<Gateway, 'fetch'>
  readonly scopeOf: (client: unknown, socket: Socket) => RequestScope
  readonly errors: HttpErrors
  readonly isEnding: () => boolean
}

/** Handles all requests that are not plain: node:http, the adapter of @hono/node-server, the app. */
function requestListener({ gateway, scopeOf, errors, isEnding }: RequestListenerParts): RequestListener {
  const fetch = (request: Request, client: unknown): Promise<Response> => {
    const { incoming } = client as HttpBindings
    return gateway.fetch(collecting(request, new NodeBody(incoming)), scopeOf(client, incoming.socket))
  }
  const handle = getRequestListener(fetch, { errorHandler: (error) => refuseTarget(error, errors) })
  return (incoming, outgoing) => {
    // Load balancers check in HTTP/1.0, which has no Host.
    if (incoming.httpVersion === '1.0') incoming.headers.host ??= 'localhost'
    if (isEnding()) outgoing.shouldKeepAlive = false
    errors.watch(incoming, outgoing)
    // Parsers accept `gzip, chunked`, and then take compressed bytes for the body (RFC 9112, 6.1).
    if (!isChunkedOrNone(incoming.headers['transfer-encoding']))
      return errors.refuse('transfer_encoding', { incoming, outgoing })
    return handle(incoming, outgoing)
  }
}

function open(server: Server | TlsServer, { host, port, reusePort = false }: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port, reusePort, backlog: BACKLOG }, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

const isChunkedOrNone = (encoding: string | undefined): boolean =>
  encoding === undefined || encoding.trim().toLowerCase() === 'chunked'

/** Rejects a request that is valid HTTP and names no URL: no Host, or a target that is no path, such as `*`. */
function refuseTarget(error: unknown, errors: HttpErrors): Response {
  // The gateway itself never rejects.
  if (!(error instanceof RequestError)) return new Response(null, { status: 500 })
  errors.note('bad_http', null)
  return new Response(
    errorBody('bad_http', 'The request names no URL of this gateway. Send a Host header and a path.'),
    { status: 400, headers: JSON_TYPE },
  )
}

/** `host:port` for clients on this machine. */
function placeOf({ address, port }: AddressInfo): string {
  if (address === '0.0.0.0') return `127.0.0.1:${port}`
  if (address === '::') return `[::1]:${port}`
  return addressText({ host: address, port })
}
