import type { AssetFiles } from '../../ports/assets.ts'
import type { Ports } from '../../ports.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import { watch, type WatchParts } from '../admin.ts'
import { dashboardFile, dashboardPage, dashboardSlash } from '../dashboard-pages.ts'
import type { SnapshotParts } from '../dashboard-snapshot.ts'
import { DashboardStream } from '../dashboard-stream.ts'
import { type RouteMiddlewareParts, operatorMiddleware } from '../route-middleware.ts'
import { authenticateAdmin } from '../middleware/authenticate-admin.ts'
import { refuseWhileDraining } from '../middleware/refuse-while-draining.ts'
import { type App, newApp } from '../new-app.ts'
import { refuseOtherMethods } from '../refuse-other-methods.ts'

interface DashboardParts extends SnapshotParts, RouteMiddlewareParts {
  readonly config: SnapshotParts['config'] & RouteMiddlewareParts['config']
  readonly ports: SnapshotParts['ports'] & RouteMiddlewareParts['ports'] & Pick<Ports, 'random'>
  readonly workerGroup: (NonNullable<SnapshotParts['workerGroup']> & NonNullable<WatchParts['workerGroup']>) | null
  readonly authenticator: Pick<Authenticator, 'admin'>
  /** Files of the pages. */
  readonly assets: AssetFiles
}

/** Pages for operators, which have no data, and the feed that they show, which needs the admin key. */
export function dashboardRoutes(parts: DashboardParts): App {
  const { assets } = parts
  const entry = operatorMiddleware(parts)
  const app = newApp()
  app.get('/', ...entry, (c) => dashboardPage(assets, c.get('incoming'), 'overview.html'))
  app.get('/dashboard', ...entry, (c) => dashboardPage(assets, c.get('incoming'), 'index.html'))
  app.get('/runbook', ...entry, (c) => dashboardPage(assets, c.get('incoming'), 'runbook.html'))
  app.get('/dashboard/', ...entry, (c) => dashboardSlash(c.get('incoming')))
  app.get('/dashboard/:name', ...entry, (c) => dashboardFile(assets, c.get('incoming'), c.req.param('name') ?? ''))
  const live = new DashboardStream(parts)
  const admit = [authenticateAdmin(parts.authenticator), refuseWhileDraining(parts.status, parts.ports)]
  app.get('/v1/firstlight/live', ...entry, ...admit, (c) => watch(parts, live, c.get('incoming')))
  return refuseOtherMethods(app, null, () => entry)
}
