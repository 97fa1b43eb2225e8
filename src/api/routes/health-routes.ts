import { VERSION } from '../../version.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import { clientMiddleware, type RouteMiddlewareParts, operatorMiddleware } from '../route-middleware.ts'
import type { GatewayStatus } from '../gateway-status.ts'
import { jsonResponse } from '../json-response.ts'
import { type App, newApp } from '../new-app.ts'
import type { ReadyView } from '../openapi/gateway.ts'
import { refuseOtherMethods } from '../refuse-other-methods.ts'

interface HealthParts extends RouteMiddlewareParts {
  readonly authenticator: Pick<Authenticator, 'trust'>
  readonly status: Pick<GatewayStatus, 'draining'>
}

/** Health, readiness and version of the gateway itself, independent of the engines. */
export function healthRoutes(parts: HealthParts): App {
  const app = newApp()
  app.get('/health', ...clientMiddleware(parts), (c) => jsonResponse(c.get('incoming'), { status: 'ok' }))
  app.get('/version', ...clientMiddleware(parts), (c) => jsonResponse(c.get('incoming'), { version: VERSION }))
  app.get('/ready', ...operatorMiddleware(parts), (c) => {
    const reason = unreadiness(parts)
    const view: ReadyView = reason === null ? { status: 'ready' } : { status: 'not_ready', reason }
    return jsonResponse(c.get('incoming'), view, reason === null ? 200 : 503)
  })
  return refuseOtherMethods(app, parts.config.cors, (path) =>
    path === '/ready' ? operatorMiddleware(parts) : clientMiddleware(parts),
  )
}

/** Why the gateway takes no requests. null: it does. */
function unreadiness({ status, authenticator }: HealthParts): string | null {
  if (status.draining) return 'draining'
  return authenticator.trust === 'unconfigured' ? 'not_configured' : null
}
