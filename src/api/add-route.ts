import type { Context } from 'hono'
import type { BodyMemory } from '../body-memory.ts'
import type { Ports } from '../ports.ts'
import { type ErrorShape, openaiErrors } from '../protocols/error-shape.ts'
import { logRequest, roundMs } from './access-log.ts'
import { failedRequest, type FailureParts } from './failed-request.ts'
import { type Chain, RoutedRequest } from './middleware/middleware.ts'
import type { App, RequestEnv } from './new-app.ts'
import { addOwnHeaders } from './own-headers.ts'
import { type HttpRequest, openRequest } from './request-context.ts'

export interface RouteParts extends FailureParts {
  readonly ports: FailureParts['ports'] & Pick<Ports, 'newId'>
  readonly bodyMemory: Pick<BodyMemory, 'open'>
}

type Answer = (request: RoutedRequest, c: Context<RequestEnv>) => Response | Promise<Response>

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE' | 'ALL'

/** Adds a route to an application. */
export type AddRoute = (methods: Method | Method[], path: string, answer: Answer) => void

/**
 * Adds routes that have one chain of middleware. Hono's own middleware is not used: each would run in an asynchronous
 * function, which allocates 4 KB per request.
 * @param shapeOf form of the errors
 */
export function addRouteBehind(
  chain: Chain,
  app: App,
  parts: RouteParts,
  shapeOf: (request: HttpRequest) => ErrorShape = () => openaiErrors,
): AddRoute {
  const handlerOf = (answer: Answer) => async (c: Context<RequestEnv>) => {
    const { raw } = c.req
    const incoming = openRequest(raw, c.env, parts.ports, shapeOf(raw))
    incoming.memory = parts.bodyMemory.open()
    const request = new RoutedRequest(incoming)
    try {
      for (const step of chain) {
        const done = step(request)
        if (done instanceof Promise) await done
      }
      const response = await answer(request, c)
      logAnswer(parts, request, response)
      return response
    } catch (thrown) {
      return failedRequest(parts, request, thrown)
    }
  }
  return (methods, path, answer) => void app.on(methods, [path], handlerOf(answer))
}

/** Writes the log line. A response of an engine is logged at the end of its stream. */
function logAnswer({ ports }: RouteParts, { incoming }: RoutedRequest, response: Response): void {
  if (incoming.logOnStreamEnd) {
    incoming.logFields.head_ms ??= roundMs(incoming.elapsedMs())
    return
  }
  incoming.memory?.release()
  logRequest(incoming, ports, response.status)
  // The gateway's own response; an engine's has its stages already.
  if (response.headers.has('x-request-id') && !response.headers.has('server-timing')) addOwnHeaders(response, incoming)
}
