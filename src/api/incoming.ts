import type { Ports, RequestScope } from '../ports.ts'
import { Failure } from '../failure.ts'
import { asFailure, isOurs, problemResponse, type ErrorShape } from './problem.ts'

/** One request at the door. */
export interface Incoming {
  readonly request: Request
  readonly scope: RequestScope
  /** The gateway's own id. */
  readonly id: string
  /** The client's label, or our id. */
  readonly requestId: string
  /** `ports.now()` when it came in. */
  readonly receivedAt: number
  readonly path: string
  /** `?…` or ''. */
  readonly query: string
  readonly shape: ErrorShape
  /** Fields of its one line in the log; handlers add what they learn. Never prompts, never keys. */
  readonly line: Record<string, unknown>
}

const SANE_ID = /^[\w.:=-]{1,128}$/

/** Reads what every answer needs, before anything can fail. */
export function receive(request: Request, scope: RequestScope, ports: Ports, shape: ErrorShape): Incoming {
  const id = ports.newId()
  const label = request.headers.get('x-request-id')
  const requestId = label !== null && SANE_ID.test(label) ? label : id
  const { path, query } = split(request.url)
  return { request, scope, id, requestId, receivedAt: ports.now(), path, query, shape, line: {} }
}

/** Path and query of an absolute URL, without parsing it: this runs for every request. */
export function split(url: string): { readonly path: string; readonly query: string } {
  const start = url.indexOf('/', url.indexOf('://') + 3)
  if (start < 0) return { path: '/', query: '' }
  const hash = url.indexOf('#', start)
  const end = hash < 0 ? url.length : hash
  const mark = url.indexOf('?', start)
  if (mark < 0 || mark > end) return { path: url.slice(start, end), query: '' }
  return { path: url.slice(start, mark), query: url.slice(mark, end) }
}

/** Runs a handler, turns what it throws into an answer, and writes the one line of the log. */
export async function guarded(incoming: Incoming, ports: Ports, handle: (incoming: Incoming) => Response | Promise<Response>): Promise<Response> {
  try {
    const response = await handle(incoming)
    log(incoming, ports, response.status)
    return response
  } catch (thrown) {
    const failure = asFailure(thrown)
    if (failure.cause !== undefined && isOurs(failure.reason)) {
      ports.log.error('request failed', { request_id: incoming.requestId, id: incoming.id, reason: failure.reason, error: failure.cause })
    }
    log(incoming, ports, failure.shape.status, failure.reason)
    return problemResponse(failure, incoming.shape, incoming.requestId)
  }
}

/** Asked every few seconds by machines and by the overview page. */
const QUIET: ReadonlySet<string> = new Set(['/health', '/ready', '/v1/firstlight/fleet'])

function log(incoming: Incoming, ports: Ports, status: number, reason?: string): void {
  ports.log[status < 400 && QUIET.has(incoming.path) ? 'debug' : 'info']('request', {
    request_id: incoming.requestId,
    id: incoming.id,
    method: incoming.request.method,
    path: incoming.path.slice(0, 200),
    status,
    ...(reason === undefined ? {} : { reason }),
    head_ms: Math.max(0, Math.round((ports.now() - incoming.receivedAt) * 10) / 10),
    remote: incoming.scope.remoteAddress,
    ...incoming.line,
  })
}

/** A JSON answer of the gateway's own. */
export function answerJson(incoming: Incoming, value: unknown, status = 200): Response {
  const headers = { 'content-type': 'application/json', 'cache-control': 'no-store', 'x-request-id': incoming.requestId }
  return new Response(JSON.stringify(value), { status, headers })
}

/** For ids in paths: what could be no id is not found, and never reaches an engine's URL. */
export function idParam(value: string | undefined, what: string): string {
  if (value !== undefined && /^[\w.:=-]{1,200}$/.test(value)) return value
  throw new Failure('not_found', `That is not the id of a ${what}.`)
}
