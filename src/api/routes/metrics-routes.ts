import type { Config } from '../../config.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import { type EntryParts, operatorEntry } from '../entry.ts'
import { metrics, type MetricsParts } from '../metrics.ts'
import { authenticateKeyOrAdmin } from '../middleware/authenticate-key-or-admin.ts'
import { type App, newApp } from '../new-app.ts'
import { refuseOtherMethods } from '../refuse-other-methods.ts'

interface MetricsRouteParts extends MetricsParts, EntryParts {
  readonly config: EntryParts['config'] & Pick<Config, 'metrics'>
  readonly ports: MetricsParts['ports'] & EntryParts['ports']
  readonly bodyMemory: MetricsParts['bodyMemory'] & EntryParts['bodyMemory']
  readonly authenticator: Authenticator
}

/** `/metrics` needs `metrics.key` or the admin key, or no key on a loopback listener. */
export function metricsRoutes(parts: MetricsRouteParts): App {
  const admit = authenticateKeyOrAdmin(parts.authenticator, parts.config.metrics.key, 'metrics.key')
  const app = newApp()
  app.get('/metrics', ...operatorEntry(parts), admit, (c) => metrics(parts, c.get('incoming')))
  return refuseOtherMethods(app, null, () => operatorEntry(parts))
}
