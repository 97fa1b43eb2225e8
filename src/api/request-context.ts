import type { AbortSignalLike, Log, Ports, RequestScope } from '../ports.ts'
import { drainFailure, Failure, type FailureReason } from '../failure.ts'
import { abortReason } from '../origin/exchange.ts'
import type { HeaderSource } from '../origin/headers.ts'
import { REGION_DIGEST_PATH } from '../origin/regions/client.ts'
import type { HeldBytes } from './body-memory.ts'
import type { BodySource } from './body.ts'
import { asFailure, isOurs, problemResponse, type ErrorShape } from './error-response.ts'

/** Warnings about rejected requests per reason and window. */
const LINES = 10
const WINDOW_MS = 10_000

interface Window {
  readonly endsAt: number
  lines: number
  suppressed: number
}

export interface SuppressedRefusals {
  readonly reason: string
  readonly suppressed: number
}

/** Limits log lines during an outage: the first refusals of a window are warnings, the others are counted. */
export class RefusalLimit {
  readonly #windows = new Map<string, Window>()

  /** Whether this refusal may be a warning. Reasons are a closed set. */
  admits(reason: string, now: number): boolean {
    let window = this.#windows.get(reason)
    if (window === undefined || now >= window.endsAt) {
      window = { endsAt: now + WINDOW_MS, lines: 0, suppressed: 0 }
      this.#windows.set(reason, window)
    }
    if (window.lines === LINES) window.suppressed += 1
    else window.lines += 1
    return window.suppressed === 0
  }

  /** Counts of suppressed refusals of ended windows; each is returned once. */
  ended(now: number): readonly SuppressedRefusals[] {
    const summaries: SuppressedRefusals[] = []
    for (const [reason, { endsAt, suppressed }] of this.#windows) {
      if (now < endsAt) continue
      this.#windows.delete(reason)
      if (suppressed > 0) summaries.push({ reason, suppressed })
    }
    return summaries
  }
}

/** A request as handlers read it. A web `Request` is one; a platform may pass a lighter object. */
export type HttpRequest = BodySource & {
  readonly method: string
  /** Absolute URL, or path and query. */
  readonly url: string
  readonly headers: HeaderSource
  /** Aborted when the client disconnects, as far as the runtime detects it. */
  readonly signal: AbortSignalLike
}

const SANE_ID = /^[\w.:=-]{1,128}$/

/** One inbound request. */
export class RequestContext {
  readonly request: HttpRequest
  readonly scope: RequestScope
  /** The gateway's own id. */
  readonly id: string
  /** The client's label, or the gateway's id. */
  readonly requestId: string
  /** `ports.now()` at arrival. */
  readonly receivedAt: number
  readonly path: string
  /** `?…` or ''. */
  readonly query: string
  readonly shape: ErrorShape
  /** CORS headers for every response, flat. null: none (`cors.ts`). */
  cors: readonly string[] | null = null
  /** Fields of the log line of the request; handlers add to them. Never prompts or keys. */
  readonly logFields: Record<string, unknown> = {}
  /**
   * Memory of the body in `limits.buffered_bytes`. If `endsLater` is set, its setter releases it; otherwise the error
   * boundary does, with the response.
   */
  memory: HeldBytes | null = null
  /** The log line is written after the last byte, by the code that set this. */
  logOnStreamEnd = false
  readonly #ports: Ports

  /** Reads what every response needs, before anything can fail. */
  constructor(request: HttpRequest, scope: RequestScope, ports: Ports, shape: ErrorShape) {
    this.#ports = ports
    this.receivedAt = ports.now()
    this.request = request
    this.scope = scope
    this.shape = shape
    this.id = ports.newId()
    const label = request.headers.get('x-request-id')
    this.requestId = label !== null && SANE_ID.test(label) ? label : this.id
    const { path, query } = splitUrl(request.url)
    this.path = path
    this.query = query
  }

  /** Time since arrival, ms. */
  elapsedMs(): number {
    return Math.max(0, this.#ports.now() - this.receivedAt)
  }
}

/** Path and query of a URL, absolute or not, without parsing, because it runs for every request. */
export function splitUrl(url: string): { readonly path: string; readonly query: string } {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('://') + 3)
  if (start < 0) return { path: '/', query: '' }
  const hash = url.indexOf('#', start)
  const end = hash < 0 ? url.length : hash
  const mark = url.indexOf('?', start)
  if (mark < 0 || mark > end) return { path: url.slice(start, end), query: '' }
  return { path: url.slice(start, mark), query: url.slice(mark, end) }
}

/**
 * Runs a handler, converts what it throws to a response, and writes the log line. Calls `refused` for refusals that
 * are counted nowhere else.
 */
export async function withErrorBoundary(
  incoming: RequestContext,
  ports: Ports,
  handle: (incoming: RequestContext) => Response | Promise<Response>,
  refused: (reason: FailureReason) => void,
): Promise<Response> {
  try {
    const response = await handle(incoming)
    if (incoming.logOnStreamEnd) incoming.logFields['head_ms'] ??= rounded(incoming.elapsedMs())
    else {
      incoming.memory?.release()
      logRequest(incoming, ports, response.status)
      // The gateway's own response; an engine's has its stages already.
      if (response.headers.has('x-request-id') && !response.headers.has('server-timing')) addOwn(response, incoming)
    }
    return response
  } catch (thrown) {
    incoming.memory?.release()
    const failure = asShutdownFailure(asFailure(thrown), incoming, ports)
    if (!incoming.logOnStreamEnd) refused(failure.reason)
    logFailure(incoming, ports, failure)
    const response = problemResponse(failure, incoming.shape, incoming.requestId)
    addOwn(response, incoming)
    return response
  }
}

/** A body that ends early because the gateway shuts down is no fault of the client. */
const asShutdownFailure = (failure: Failure, { scope }: RequestContext, ports: Ports): Failure =>
  failure.reason === 'client_gone' && abortReason(scope) === 'abandoned' ? drainFailure(ports.random()) : failure

/** Adds the headers of responses that no engine gave. */
function addOwn({ headers }: Response, incoming: RequestContext): void {
  headers.set('server-timing', edgeTiming(incoming))
  const { cors } = incoming
  if (cors !== null) for (let i = 0; i < cors.length; i += 2) headers.append(cors[i]!, cors[i + 1]!)
}

/** LMCache servers send heartbeats and events here about every second. */
export const REGISTRY_PREFIX = '/lmcache/'
/** Paths that machines and the overview page request every few seconds. */
const DEBUG_PATHS: ReadonlySet<string> = new Set([
  '/health',
  '/ready',
  '/metrics',
  '/v1/firstlight/fleet',
  '/v1/firstlight/kv-events',
  REGION_DIGEST_PATH,
])

/** Whether log lines of requests are written at this level, to save the work of building them. */
export const logsRequests = (log: Log): boolean => log.writes?.('info') ?? true

/** Writes the log line of a request. */
export function logRequest(
  incoming: RequestContext,
  { log }: Ports,
  status: number,
  { reason, level = 'info' }: { readonly reason?: string | undefined; readonly level?: 'info' | 'warn' } = {},
): void {
  if (level === 'info' && !logsRequests(log)) return
  const isQuiet = status < 400 && (DEBUG_PATHS.has(incoming.path) || incoming.path.startsWith(REGISTRY_PREFIX))
  log[isQuiet ? 'debug' : level]('request', {
    request_id: incoming.requestId,
    id: incoming.id,
    method: incoming.request.method,
    path: shownPath(incoming.path),
    status,
    ...(reason === undefined ? {} : { reason }),
    head_ms: rounded(incoming.elapsedMs()),
    remote: incoming.scope.remoteAddress,
    ...incoming.logFields,
  })
}

const limits = new WeakMap<Log, RefusalLimit>()

/**
 * Writes the log line of a rejected request: a warning unless the client is the cause, and `info` once a reason is
 * frequent. An unexpected error has a further line with its stack.
 */
function logFailure(incoming: RequestContext, ports: Ports, { reason, cause, shape }: Failure): void {
  const { log } = ports
  if (reason === 'internal') {
    log.error('request_failed', { request_id: incoming.requestId, id: incoming.id, reason, error: cause })
    return logRequest(incoming, ports, shape.status, { reason })
  }
  const now = ports.now()
  const limit = limits.get(log) ?? new RefusalLimit()
  limits.set(log, limit)
  for (const summary of limit.ended(now)) log.warn('requests_refused', { ...summary })
  const level = isOurs(reason) && limit.admits(reason, now) ? 'warn' : 'info'
  if (cause !== undefined && isOurs(reason)) incoming.logFields[cause instanceof Error ? 'error' : 'cause'] = cause
  logRequest(incoming, ports, shape.status, { reason, level })
}

const rounded = (ms: number): number => Math.round(ms * 10) / 10

/** Paths of reporters and LMCache servers may contain a token. */
const shownPath = (path: string): string => {
  const front = /^\/(?:ttft_report|lmcache)\//.exec(path)
  return front === null ? path.slice(0, 200) : `${front[0]}…`
}

/** `Server-Timing` of a response that no engine gave. */
const edgeTiming = (incoming: RequestContext): string => `edge;dur=${rounded(incoming.elapsedMs())}`

/** JSON response of the gateway itself. */
export function answerJson(incoming: RequestContext, value: unknown, status = 200): Response {
  const headers = {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'x-request-id': incoming.requestId,
  }
  return new Response(JSON.stringify(value), { status, headers })
}

/** Validates an id in a path: malformed ids are not found, and never become part of an engine's URL. */
export function idParam(value: string | undefined, what: string): string {
  if (value !== undefined && /^[\w.:=-]{1,200}$/.test(value)) return value
  throw new Failure('not_found', `That is not the id of a ${what}.`)
}
