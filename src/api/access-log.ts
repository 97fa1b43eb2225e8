/** The log line of a request. */
import type { Failure } from '../failure.ts'
import { REGION_DIGEST_PATH } from '../origin/regions/region-digest-client.ts'
import type { Ports } from '../ports.ts'
import type { Log } from '../ports/log.ts'
import { isGatewayFault } from './error-response.ts'
import { REGISTRY_PREFIX } from './lmcache/registry-path.ts'
import { RefusalLogLimit } from './refusal-log-limit.ts'
import type { RequestContext } from './request-context.ts'

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
  { log }: Pick<Ports, 'log'>,
  status: number,
  { reason, level = 'info' }: { readonly reason?: string | undefined; readonly level?: 'info' | 'warn' } = {},
): void {
  if (level === 'info' && !logsRequests(log)) return
  const isQuiet = status < 400 && (DEBUG_PATHS.has(incoming.path) || incoming.path.startsWith(REGISTRY_PREFIX))
  // Not a copy: the fields that handlers added would be copied one by one, 3 KB a request.
  const fields = incoming.logFields
  fields.path ??= loggedPath(incoming.path)
  fields.status = status
  fields.reason = reason
  fields.head_ms ??= roundMs(incoming.elapsedMs())
  fields.remote = incoming.scope.remoteAddress
  log[isQuiet ? 'debug' : level]('request', fields)
}

/** The gateway's id, and the client's label if it sent one. */
const requestIds = ({ id, requestId }: RequestContext): Record<string, string> =>
  requestId === id ? { id } : { request_id: requestId, id }

const refusalLimits = new WeakMap<Log, RefusalLogLimit>()

/**
 * Writes the log line of a rejected request: a warning unless the client is the cause, and `info` once a reason is
 * frequent. An unexpected error has a further line with its stack.
 */
export function logFailure(
  incoming: RequestContext,
  ports: Pick<Ports, 'log' | 'now'>,
  { reason, cause, shape }: Failure,
): void {
  const { log } = ports
  if (reason === 'internal') {
    log.error('request_failed', { ...requestIds(incoming), reason, error: cause })
    return logRequest(incoming, ports, shape.status, { reason })
  }
  const now = ports.now()
  const limit = refusalLimits.get(log) ?? new RefusalLogLimit()
  refusalLimits.set(log, limit)
  for (const summary of limit.ended(now)) log.warn('requests_refused', { ...summary })
  const level = isGatewayFault(reason) && limit.admits(reason, now) ? 'warn' : 'info'
  if (cause !== undefined && isGatewayFault(reason)) {
    if (cause instanceof Error) incoming.logFields.error = cause
    else incoming.logFields.cause = cause
  }
  logRequest(incoming, ports, shape.status, { reason, level })
}

export const roundMs = (ms: number): number => Math.round(ms * 10) / 10

/** Paths of reporters and LMCache servers may contain a token. */
const loggedPath = (path: string): string => {
  const prefix = SECRET_PATHS.find((one) => path.startsWith(one))
  return prefix === undefined ? path.slice(0, 200) : `${prefix}…`
}

const SECRET_PATHS = ['/ttft_report/', '/lmcache/'] as const
