import type { AssetFiles } from '../../ports/assets.ts'
import type { Ports } from '../../ports.ts'
import { addRouteBehind } from '../add-route.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import { watch, type WatchParts } from '../admin.ts'
import { dashboardFile, dashboardPage, dashboardSlash } from '../dashboard-pages.ts'
import type { SnapshotParts } from '../dashboard-snapshot.ts'
import { DashboardStream } from '../dashboard-stream.ts'
import { type RouteMiddlewareParts, operatorMiddleware } from '../route-middleware.ts'
import { authenticateAdmin } from '../middleware/authenticate-admin.ts'
import { refuseWhileDraining } from '../middleware/refuse-while-draining.ts'
import type { Chain } from '../middleware/middleware.ts'
import { type App, newApp } from '../new-app.ts'
import { refuseOtherMethods } from '../refuse-other-methods.ts'

interface DashboardParts extends SnapshotParts, RouteMiddlewareParts {
  readonly config: SnapshotParts['config'] & RouteMiddlewareParts['config']
  readonly ports: SnapshotParts['ports'] & RouteMiddlewareParts['ports'] & Pick<Ports, 'random'>
  readonly shared: (NonNullable<SnapshotParts['shared']> & NonNullable<WatchParts['shared']>) | null
  readonly telemetry: SnapshotParts['telemetry'] & RouteMiddlewareParts['telemetry']
  readonly authenticator: Pick<Authenticator, 'admin'>
  /** Files of the pages. */
  readonly assets: AssetFiles
}

/** Pages for operators, which have no data, and the feed that they show, which needs the admin key. */
export function dashboardRoutes(parts: DashboardParts): App {
  const { assets, authenticator, status, ports } = parts
  const entry = operatorMiddleware(parts)
  const app = newApp()
  const add = addRouteBehind(entry, app, parts)
  add('GET', '/', ({ incoming }) => dashboardPage(assets, incoming, 'overview.html'))
  add('GET', '/dashboard', ({ incoming }) => dashboardPage(assets, incoming, 'index.html'))
  add('GET', '/runbook', ({ incoming }) => dashboardPage(assets, incoming, 'runbook.html'))
  add('GET', '/dashboard/', ({ incoming }) => dashboardSlash(incoming))
  add('GET', '/dashboard/:name', ({ incoming }, c) => dashboardFile(assets, incoming, c.req.param('name') ?? ''))
  const live = new DashboardStream(parts)
  const admit: Chain = [...entry, authenticateAdmin(authenticator), refuseWhileDraining(status, ports)]
  const addForAdmin = addRouteBehind(admit, app, parts)
  addForAdmin('GET', '/v1/firstlight/live', ({ incoming }) => watch(parts, live, incoming))
  return refuseOtherMethods(app, null, () => add)
}
