import type { Config } from '../../config.ts'
import { REGION_DIGEST_PATH } from '../../origin/regions/region-digest-client.ts'
import type { Ports } from '../../ports.ts'
import { type AdminParts, decision, dryRun, fleet, request, setDraining, usage, weightedModels } from '../admin.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import { type RouteMiddlewareParts, operatorMiddleware } from '../route-middleware.ts'
import { type IssuedKeyParts, issueKey, listKeys, revokeKey } from '../issued-keys.ts'
import { applyKvEvents, type KvEventParts } from '../kv-events.ts'
import { authenticateAdmin } from '../middleware/authenticate-admin.ts'
import { authenticateKeyOrAdmin } from '../middleware/authenticate-key-or-admin.ts'
import { authenticate } from '../middleware/authenticate.ts'
import { refuseWhileDraining } from '../middleware/refuse-while-draining.ts'
import { type App, newApp } from '../new-app.ts'
import { openApi } from '../openapi.ts'
import { pause, type PoolPauseParts, resume } from '../pool-pause.ts'
import type { Chain } from '../middleware/middleware.ts'
import { refuseOtherMethods } from '../refuse-other-methods.ts'
import { regionDigest, type RegionDigestParts } from '../region-digest.ts'

interface AdminRouteParts extends AdminParts, IssuedKeyParts, RegionDigestParts, RouteMiddlewareParts, PoolPauseParts {
  readonly config: Config
  readonly ports: Ports
  readonly models: AdminParts['models']
  readonly lookups: AdminParts['lookups']
  readonly workerGroup: AdminParts['workerGroup']
  readonly status: AdminParts['status']
  readonly digests: AdminParts['digests'] & RegionDigestParts['digests']
  readonly authenticator: Authenticator
}

/** Routes for operators, and for other machines of the operator: bridges and gateways of other regions. */
export function adminRoutes(parts: AdminRouteParts): App {
  const entry = operatorMiddleware(parts)
  const app = newApp()
  app.get('/openapi.json', ...entry, (c) => openApi(c.get('incoming')))
  mountOperators(app, parts)
  const bridge = authenticateKeyOrAdmin(parts.authenticator, parts.config.bridge?.secret ?? null, 'bridge.secret')
  const feed: KvEventParts = parts
  app.post('/v1/firstlight/kv-events', ...entry, bridge, (c) => applyKvEvents(feed, c.get('incoming')))
  app.get(REGION_DIGEST_PATH, ...entry, authenticate(parts.authenticator, false), (c) =>
    regionDigest(parts, c.get('incoming'), c.get('caller')),
  )
  return refuseOtherMethods(app, null, () => entry)
}

/** Id of an engine: a rank has a slash in it. */
const ENGINE = ':id{.+}'

function mountOperators(app: App, parts: AdminRouteParts): void {
  const admin: Chain = [...operatorMiddleware(parts), authenticateAdmin(parts.authenticator)]
  const accepting = refuseWhileDraining(parts.status, parts.ports)
  app.post('/v1/firstlight/route', ...admin, accepting, (c) => dryRun(parts, c.get('incoming')))
  app.get('/v1/firstlight/fleet', ...admin, (c) => fleet(parts, c.get('incoming')))
  app.get('/v1/firstlight/usage', ...admin, (c) => usage(parts, c.get('incoming')))
  app.get('/v1/firstlight/weighted-models', ...admin, (c) => weightedModels(parts, c.get('incoming')))
  app.get('/v1/firstlight/keys', ...admin, (c) => listKeys(parts, c.get('incoming')))
  app.post('/v1/firstlight/keys', ...admin, (c) => issueKey(parts, c.get('incoming')))
  app.delete('/v1/firstlight/keys/:id', ...admin, (c) => revokeKey(parts, c.get('incoming'), c.req.param('id')))
  app.get('/v1/firstlight/decisions/:id', ...admin, (c) => decision(parts, c.get('incoming'), c.req.param('id')))
  app.get('/v1/firstlight/requests/:id', ...admin, (c) => request(parts, c.get('incoming'), c.req.param('id')))
  app.post(`/v1/firstlight/engines/${ENGINE}/drain`, ...admin, (c) =>
    setDraining(parts, c.get('incoming'), c.req.param('id'), true),
  )
  // Names of models may have slashes.
  app.post('/v1/firstlight/pools/:id{.+}/pause', ...admin, (c) => pause(parts, c.get('incoming'), c.req.param('id')))
  app.post('/v1/firstlight/pools/:id{.+}/resume', ...admin, (c) => resume(parts, c.get('incoming'), c.req.param('id')))
  app.post(`/v1/firstlight/engines/${ENGINE}/undrain`, ...admin, (c) =>
    setDraining(parts, c.get('incoming'), c.req.param('id'), false),
  )
}
