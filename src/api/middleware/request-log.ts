import type { Context } from 'hono'
import type { BodyMemory } from '../../body-memory.ts'
import type { Ports } from '../../ports.ts'
import type { ErrorShape } from '../../protocols/error-shape.ts'
import { logFailure, logRequest, roundMs } from '../access-log.ts'
import { addOwnHeaders } from '../own-headers.ts'
import { RequestContext } from '../request-context.ts'
import type { Middleware, RequestEnv } from './middleware.ts'

export interface RequestLogParts {
  readonly ports: Pick<Ports, 'now' | 'newId' | 'log'>
  readonly bodyMemory: Pick<BodyMemory, 'open'>
}

/**
 * Opens the request, and writes its log line after the response. A response of an engine is logged at the end of its
 * stream.
 * @param shape form of the errors of this route
 */
export const requestLog =
  ({ ports, bodyMemory }: RequestLogParts, shape: ErrorShape): Middleware =>
  (c, next) => {
    const incoming = new RequestContext(c.req.raw, c.env, ports, shape)
    incoming.memory = bodyMemory.open()
    c.set('incoming', incoming)
    // No async function: its generator would stay in memory as long as the request waits for its engine.
    return next().then(() => logResponse(c, ports))
  }

function logResponse(c: Context<RequestEnv>, ports: RequestLogParts['ports']): void {
  const incoming = c.get('incoming')
  const failure = c.get('failure')
  if (failure !== undefined) return logFailure(incoming, ports, failure)
  if (incoming.logOnStreamEnd) {
    incoming.logFields.head_ms ??= roundMs(incoming.elapsedMs())
    return
  }
  const response = c.res
  incoming.memory?.release()
  logRequest(incoming, ports, response.status)
  // The gateway's own response; an engine's has its stages already.
  if (response.headers.has('x-request-id') && !response.headers.has('server-timing')) addOwnHeaders(response, incoming)
}
