import type { Config } from '../../config.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import { type RouteMiddlewareParts, operatorMiddleware } from '../route-middleware.ts'
import { metrics, type MetricsParts } from '../metrics.ts'
import { authenticateKeyOrAdmin } from '../middleware/authenticate-key-or-admin.ts'
import { type App, newApp } from '../new-app.ts'
import { refuseOtherMethods } from '../refuse-other-methods.ts'

interface MetricsRouteParts extends MetricsParts, RouteMiddlewareParts {
  readonly config: RouteMiddlewareParts['config'] & Pick<Config, 'metrics' | 'discovered'>
  readonly ports: MetricsParts['ports'] & RouteMiddlewareParts['ports']
  readonly bodyMemory: MetricsParts['bodyMemory'] & RouteMiddlewareParts['bodyMemory']
  readonly authenticator: Authenticator
}

/** `/metrics` needs `metrics.key` or the admin key, or no key on a loopback listener. */
export function metricsRoutes(parts: MetricsRouteParts): App {
  const admit = authenticateKeyOrAdmin(parts.authenticator, parts.config.metrics.key, 'metrics.key')
  const app = newApp()
  app.get('/metrics', ...operatorMiddleware(parts), admit, (c) => metrics(parts, c.get('incoming')))
  return refuseOtherMethods(app, null, () => operatorMiddleware(parts))
}
