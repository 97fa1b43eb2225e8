/** The gateway on a port: HTTP by node:http and @hono/node-server, probes by a timer, an orderly end. */
import { getRequestListener, RequestError } from '@hono/node-server'
import { createServer, type Server, type ServerOptions } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { addressText } from '../../config/values.ts'
import type { Gateway } from '../../gateway.ts'
import type { Log, RequestScope } from '../../ports.ts'
import { Background, drainServer, type Drained } from './drain.ts'
import type { NodeClient } from './inbound/client-line.ts'
import { PlainDoor } from './inbound/plain-door.ts'

export interface ListenOptions {
  readonly host: string
  readonly port: number
  /** Other threads of this process listen on the same port: the system deals connections out. */
  readonly reusePort?: boolean
  /** How long running exchanges may finish at the end. */
  readonly drainMs: number
  readonly log: Log
}

export interface Listening {
  /** For people and clients: never 0.0.0.0. */
  readonly url: string
  /** Ends in order; `now` cuts the waiting short. Called twice: the same end. */
  stop(now: AbortSignal): Promise<Drained>
}

/** A head must be here this soon, a whole request this soon, and a connection may idle this long. */
const headMs = 15_000
const requestMs = 300_000
/** Longer than the idle time of common load balancers (60 s), so that they, not we, close first. */
const idleMs = 75_000
const settleMs = 5_000
const serverOptions: ServerOptions = {
  headersTimeout: headMs,
  requestTimeout: requestMs,
  keepAliveTimeout: idleMs,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 32_768,
  // Refused by `refuseTarget`, in our words.
  requireHostHeader: false,
  // As web headers do; else the first one counts of two that should contradict each other.
  joinDuplicateHeaders: true,
}
/** How soon a probe that became due is made. */
const probeTickMs = 250

/** Resolves when the port is open; rejects with the system's error when it cannot be had. */
export async function listen(gateway: Omit<Gateway, 'retire'>, options: ListenOptions): Promise<Listening> {
  const { log } = options
  const background = new Background((error) => log.error('background_failed', { error }))
  let cut = false
  const isCut = (): boolean => cut
  const scopeOf = (client: unknown, { remoteAddress }: Socket): RequestScope => ({ background: (work) => background.add(work), client, remoteAddress: remoteAddress ?? null, isCut })
  const answer = getRequestListener((request: Request, client: unknown) => gateway.fetch(request, scopeOf(client, (client as NodeClient).incoming.socket)), { errorHandler: refuseTarget })
  let ended: Promise<Drained> | null = null
  const server = createServer(serverOptions, (incoming, outgoing) => {
    // Load balancers check in HTTP/1.0, which knows no Host.
    if (incoming.httpVersion === '1.0') incoming.headers.host ??= 'localhost'
    if (ended !== null) outgoing.shouldKeepAlive = false
    return answer(incoming, outgoing)
  })
  server.on('checkExpectation', (_request, response) => response.writeHead(417, { ...JSON_TYPE, connection: 'close' }).end(problem('The one expectation that is met is 100-continue.')))
  server.on('clientError', refuseMalformed)
  const door = new PlainDoor({ gateway, patience: { headMs, requestMs, idleMs }, scopeOf, refuseLate: (socket) => refuseMalformed(LATE, socket), log })
  door.before(server)
  await open(server, options)
  const stopProbing = probeForever(gateway, log)
  return {
    url: urlOf(server.address() as AddressInfo),
    stop: (now) => {
      gateway.drain()
      stopProbing()
      ended ??= drainServer({ server, door, background, cutting: () => void (cut = true) }, { drainMs: options.drainMs, settleMs, now })
      return ended
    },
  }
}

function open(server: Server, { host, port, reusePort = false }: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port, reusePort }, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

/** The gateway knows which engines are due, and asks none twice at once: a hanging one holds up nobody's round. */
export function probeForever(gateway: Pick<Gateway, 'probe'>, log: Log): () => void {
  const round = () => {
    gateway.probe().catch((error: unknown) => log.warn('probe_failed', { error }))
  }
  round()
  const timer = setInterval(round, probeTickMs)
  timer.unref()
  return () => clearInterval(timer)
}

const malformed: Readonly<Record<string, readonly [status: string, message: string]>> = {
  HPE_HEADER_OVERFLOW: ['431 Request Header Fields Too Large', 'The request headers are too large.'],
  ERR_HTTP_REQUEST_TIMEOUT: ['408 Request Timeout', 'The request did not arrive in time.'],
}

const LATE = Object.assign(new Error('the request did not come in time'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })

const JSON_TYPE = { 'content-type': 'application/json' }
const problem = (message: string): string => JSON.stringify({ error: { message, type: 'invalid_request_error', param: null, code: 'bad_request' } })

/** HTTP, but of no URL: no Host, or a target that is no path, such as `*`. */
function refuseTarget(error: unknown): Response {
  // The gateway itself never rejects.
  if (!(error instanceof RequestError)) return new Response(null, { status: 500 })
  return new Response(problem('The request names no URL of this gateway: it needs a Host header, and a path.'), { status: 400, headers: JSON_TYPE })
}

/** What is not even HTTP gets an answer in the shape of all other errors. */
function refuseMalformed(error: Error & { readonly code?: string }, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const [status, message] = malformed[error.code ?? ''] ?? ['400 Bad Request', 'The request is not valid HTTP.']
  const body = problem(message)
  const head = `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n`
  socket.end(head + body)
}

function urlOf({ address, port }: AddressInfo): string {
  if (address === '0.0.0.0') return `http://127.0.0.1:${port}`
  if (address === '::') return `http://[::1]:${port}`
  return `http://${addressText({ host: address, port })}`
}
