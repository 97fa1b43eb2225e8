import { type ErrorShape, openaiErrors } from '../protocols/error-shape.ts'
import { protocolOf } from '../protocols/protocols.ts'
import { preflight } from './cors.ts'
import { clientGuards, type RouteMiddlewareParts } from './route-middleware.ts'
import { errorBoundary, type ErrorBoundaryParts } from './middleware/error-boundary.ts'
import { requestLog } from './middleware/request-log.ts'
import { type App, newApp, pathOf } from './new-app.ts'
import { unknownRoute } from './unknown-route.ts'
import type { Middleware } from './middleware/middleware.ts'

interface AppParts extends RouteMiddlewareParts, ErrorBoundaryParts {
  readonly ports: RouteMiddlewareParts['ports'] & ErrorBoundaryParts['ports']
}

/**
 * Joins groups of routes to one application. An unknown path is 404; nothing is forwarded by default.
 *
 * Handlers read `HttpRequest`, so a platform may pass its own lighter object with a URL of path and query only.
 */
export function createApp(parts: AppParts, groups: readonly App[]): App {
  const app = newApp()
  for (const group of groups) app.route('/', group)
  app.onError(errorBoundary(parts))
  const log: Middleware = (c, next) => requestLog(parts, shapeOf(pathOf(c.req.raw)))(c, next)
  // CORS applies here too, so that a page can read the error of a wrong URL.
  app.all('*', log, ...clientGuards(parts.config), (c) => {
    const incoming = c.get('incoming')
    const answer = preflight(incoming, parts.config.cors, 'GET, POST')
    if (answer === null) throw unknownRoute(incoming.request.method, incoming.path)
    return answer
  })
  return app
}

const shapeOf = (path: string): ErrorShape => protocolOf(path)?.errors ?? openaiErrors
