import { type RouteMiddlewareParts, operatorMiddleware } from '../route-middleware.ts'
import { lmcacheRegistry, type RegistryParts } from '../lmcache/registry-handlers.ts'
import { REGISTRY_PREFIX } from '../lmcache/registry-path.ts'
import { type App, newApp } from '../new-app.ts'
import { refuseOtherMethods } from '../refuse-other-methods.ts'

interface RegistryRouteParts extends RegistryParts, RouteMiddlewareParts {
  readonly config: RegistryParts['config'] & RouteMiddlewareParts['config']
  readonly ports: RegistryParts['ports'] & RouteMiddlewareParts['ports']
}

/** The gateway as the coordinator of LMCache servers. */
export function lmcacheRoutes(parts: RegistryRouteParts): App {
  const entry = operatorMiddleware(parts)
  const app = newApp()
  app.on(['GET', 'POST', 'PUT', 'DELETE'], `${REGISTRY_PREFIX}*`, ...entry, (c) =>
    lmcacheRegistry(parts, c.get('incoming')),
  )
  return refuseOtherMethods(app, null, () => entry)
}
