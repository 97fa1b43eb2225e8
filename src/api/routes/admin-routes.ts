import type { Config } from '../../config.ts'
import { REGION_DIGEST_PATH } from '../../origin/regions/region-digest-client.ts'
import type { Ports } from '../../ports.ts'
import { addRouteBehind } from '../add-route.ts'
import { type AdminParts, decision, dryRun, fleet, request, setDraining, usage, weightedModels } from '../admin.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import { type RouteMiddlewareParts, operatorMiddleware } from '../route-middleware.ts'
import { type IssuedKeyParts, issueKey, listKeys, revokeKey } from '../issued-keys.ts'
import { applyKvEvents, type KvEventParts } from '../kv-events.ts'
import { authenticateAdmin } from '../middleware/authenticate-admin.ts'
import { authenticateKeyOrAdmin } from '../middleware/authenticate-key-or-admin.ts'
import { authenticate } from '../middleware/authenticate.ts'
import { refuseWhileDraining } from '../middleware/refuse-while-draining.ts'
import type { Chain } from '../middleware/middleware.ts'
import { type App, newApp } from '../new-app.ts'
import { openApi } from '../openapi.ts'
import { pause, type PoolPauseParts, resume } from '../pool-pause.ts'
import { refuseOtherMethods } from '../refuse-other-methods.ts'
import { regionDigest, type RegionDigestParts } from '../region-digest.ts'

interface AdminRouteParts extends AdminParts, IssuedKeyParts, RegionDigestParts, RouteMiddlewareParts, PoolPauseParts {
  readonly config: Config
  readonly ports: Ports
  readonly models: AdminParts['models']
  readonly lookups: AdminParts['lookups']
  readonly shared: AdminParts['shared']
  readonly status: AdminParts['status']
  readonly digests: AdminParts['digests'] & RegionDigestParts['digests']
  readonly telemetry: AdminParts['telemetry'] & RouteMiddlewareParts['telemetry']
  readonly authenticator: Authenticator
}

/** Routes for operators, and for other machines of the operator: bridges and gateways of other regions. */
export function adminRoutes(parts: AdminRouteParts): App {
  const app = newApp()
  const add = addRouteBehind(operatorMiddleware(parts), app, parts)
  add('GET', '/openapi.json', ({ incoming }) => openApi(incoming))
  mountOperators(app, parts)
  mountMachines(app, parts)
  return refuseOtherMethods(app, null, () => add)
}

function mountMachines(app: App, parts: AdminRouteParts): void {
  const { authenticator, config } = parts
  const entry = operatorMiddleware(parts)
  const bridge = authenticateKeyOrAdmin(authenticator, config.bridge?.secret ?? null, 'bridge.secret')
  const feed: KvEventParts = parts
  const addForBridges = addRouteBehind([...entry, bridge], app, parts)
  addForBridges('POST', '/v1/firstlight/kv-events', ({ incoming }) => applyKvEvents(feed, incoming))
  const addForRegions = addRouteBehind([...entry, authenticate(authenticator, false)], app, parts)
  addForRegions('GET', REGION_DIGEST_PATH, ({ incoming, caller }) => regionDigest(parts, incoming, caller))
}

/** Id of an engine: a rank has a slash in it. */
const ENGINE = ':id{.+}'

function mountOperators(app: App, parts: AdminRouteParts): void {
  const admin: Chain = [...operatorMiddleware(parts), authenticateAdmin(parts.authenticator)]
  const add = addRouteBehind(admin, app, parts)
  add('GET', '/v1/firstlight/fleet', ({ incoming }) => fleet(parts, incoming))
  add('GET', '/v1/firstlight/usage', ({ incoming }) => usage(parts, incoming))
  add('GET', '/v1/firstlight/weighted-models', ({ incoming }) => weightedModels(parts, incoming))
  add('GET', '/v1/firstlight/keys', ({ incoming }) => listKeys(parts, incoming))
  add('POST', '/v1/firstlight/keys', ({ incoming }) => issueKey(parts, incoming))
  add('DELETE', '/v1/firstlight/keys/:id', ({ incoming }, c) => revokeKey(parts, incoming, c.req.param('id')))
  add('GET', '/v1/firstlight/decisions/:id', ({ incoming }, c) => decision(parts, incoming, c.req.param('id')))
  add('GET', '/v1/firstlight/requests/:id', ({ incoming }, c) => request(parts, incoming, c.req.param('id')))
  add('POST', `/v1/firstlight/engines/${ENGINE}/drain`, ({ incoming }, c) =>
    setDraining(parts, incoming, c.req.param('id'), true),
  )
  // Names of models may have slashes.
  add('POST', '/v1/firstlight/pools/:id{.+}/pause', ({ incoming }, c) => pause(parts, incoming, c.req.param('id')))
  add('POST', '/v1/firstlight/pools/:id{.+}/resume', ({ incoming }, c) => resume(parts, incoming, c.req.param('id')))
  add('POST', `/v1/firstlight/engines/${ENGINE}/undrain`, ({ incoming }, c) =>
    setDraining(parts, incoming, c.req.param('id'), false),
  )
  const accepting = refuseWhileDraining(parts.status, parts.ports)
  const addWhileOpen = addRouteBehind([...admin, accepting], app, parts)
  addWhileOpen('POST', '/v1/firstlight/route', ({ incoming }) => dryRun(parts, incoming))
}
