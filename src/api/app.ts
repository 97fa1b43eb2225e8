import { addRouteBehind } from './add-route.ts'
import { type ErrorShape, openaiErrors } from '../protocols/error-shape.ts'
import { protocolOf } from '../protocols/protocols.ts'
import { preflight } from './cors.ts'
import { clientMiddleware, type RouteMiddlewareParts } from './route-middleware.ts'
import { type App, newApp, pathOf } from './new-app.ts'
import type { HttpRequest } from './request-context.ts'
import { unknownRoute } from './unknown-route.ts'

/**
 * Joins groups of routes to one application. An unknown path is 404; nothing is forwarded by default.
 *
 * Handlers read `HttpRequest`, so a platform may pass its own lighter object with a URL of path and query only.
 */
export function createApp(parts: RouteMiddlewareParts, groups: readonly App[]): App {
  const app = newApp()
  for (const group of groups) app.route('/', group)
  // CORS applies here too, so that a page can read the error of a wrong URL.
  const add = addRouteBehind(clientMiddleware(parts), app, parts, shapeOf)
  add('ALL', '*', ({ incoming }) => {
    const answer = preflight(incoming, parts.config.cors, 'GET, POST')
    if (answer === null) throw unknownRoute(incoming.request.method, incoming.path)
    return answer
  })
  return app
}

const shapeOf = (request: HttpRequest): ErrorShape => protocolOf(pathOf(request))?.errors ?? openaiErrors
