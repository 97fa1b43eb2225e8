import type { CorsConfig } from '../config.ts'
import { Failure } from '../failure.ts'
import { preflight } from './cors.ts'
import type { App } from './new-app.ts'
import type { RequestContext } from './request-context.ts'
import type { Chain } from './middleware/middleware.ts'

/** Answers preflight requests, and other methods of a path of the application with 405. Call it after all routes. */
export function refuseOtherMethods(app: App, cors: CorsConfig | null, entryOf: (path: string) => Chain): App {
  const methods = new Map<string, Set<string>>()
  for (const { method, path } of app.routes) methods.set(path, (methods.get(path) ?? new Set()).add(method))
  for (const [path, known] of methods) {
    const allow = [...known].flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ')
    app.all(path, ...entryOf(path), (c) => {
      const incoming = c.get('incoming')
      return preflight(incoming, cors, allow) ?? wrongMethod(incoming, allow)
    })
  }
  return app
}

function wrongMethod(incoming: RequestContext, allow: string): never {
  const { request, path } = incoming
  if (request.headers.get('upgrade')?.toLowerCase() === 'websocket')
    // Codex then sends the request by POST at once. After any other status it tries again first.
    throw new Failure('websocket', `${path.slice(0, 100)} has no WebSockets. Send the request as ${allow}.`, {
      headers: { allow, upgrade: 'HTTP/1.1' },
    })
  throw new Failure(
    'method_not_allowed',
    `${request.method} is not allowed on ${path.slice(0, 100)}. Allowed: ${allow}.`,
    { headers: { allow } },
  )
}
