import { VERSION } from '../../version.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import { clientEntry, type EntryParts, operatorEntry } from '../entry.ts'
import type { GatewayStatus } from '../gateway-status.ts'
import { jsonResponse } from '../json-response.ts'
import { type App, newApp } from '../new-app.ts'
import { refuseOtherMethods } from '../refuse-other-methods.ts'

interface HealthParts extends EntryParts {
  readonly authenticator: Pick<Authenticator, 'trust'>
  readonly status: Pick<GatewayStatus, 'draining'>
}

/** Health, readiness and version of the gateway itself, independent of the engines. */
export function healthRoutes(parts: HealthParts): App {
  const app = newApp()
  app.get('/health', ...clientEntry(parts), (c) => jsonResponse(c.get('incoming'), { status: 'ok' }))
  app.get('/version', ...clientEntry(parts), (c) => jsonResponse(c.get('incoming'), { version: VERSION }))
  app.get('/ready', ...operatorEntry(parts), (c) => {
    const reason = unreadiness(parts)
    return jsonResponse(
      c.get('incoming'),
      reason === null ? { status: 'ready' } : { status: 'not_ready', reason },
      reason === null ? 200 : 503,
    )
  })
  return refuseOtherMethods(app, parts.config.cors, (path) =>
    path === '/ready' ? operatorEntry(parts) : clientEntry(parts),
  )
}

/** Why the gateway takes no requests. null: it does. */
function unreadiness({ status, authenticator }: HealthParts): string | null {
  if (status.draining) return 'draining'
  return authenticator.trust === 'unconfigured' ? 'not_configured' : null
}
