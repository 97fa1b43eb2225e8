import { type Context, Hono } from 'hono'
import type { RequestScope } from '../ports.ts'
import { Failure } from '../failure.ts'
import { OUTLOOK_PATH } from '../origin/regions/ask.ts'
import { hasPassed, loopFailure } from '../origin/via.ts'
import { decision, dryRun, fleet, request, setDraining, watch } from './admin.ts'
import { dashboardFile, dashboardPage, dashboardSlash } from './dashboard.ts'
import { corsHeaders, preflight } from './cors.ts'
import type { Door } from './door.ts'
import { endpoints } from './endpoints.ts'
import { answerJson, guarded, Incoming, REGISTRY_PREFIX, type DoorRequest } from './incoming.ts'
import { Live } from './live.ts'
import { kvEventsHandler } from './kv-events.ts'
import { lmcacheRegistry } from './lmcache/registry.ts'
import { metricsHandler } from './metrics.ts'
import { listModels, oneModel } from './models.ts'
import { outlook } from './outlook.ts'
import type { ErrorShape } from './problem.ts'
import { proxy } from './proxy.ts'
import { heldResponse } from './responses.ts'
import { mountTtft } from './ttft.ts'
import { VERSION } from './version.ts'

type Env = { Bindings: RequestScope }
type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'
type Handle = (incoming: Incoming, context: Context<Env>) => Response | Promise<Response>

/** Answers one request. Never rejects. */
export type Serve = (request: DoorRequest, scope: RequestScope) => Promise<Response>

interface Route {
  readonly method: Method
  readonly path: string
  readonly shape: ErrorShape
  readonly handle: Handle
  /** May pages of other origins be let in (`cors`)? The engines' API; nothing of what operators see. */
  readonly pages?: true
}

const get = (path: string, handle: Handle): Route => ({ method: 'GET', path, shape: 'openai', handle })
const post = (path: string, handle: Handle): Route => ({ method: 'POST', path, shape: 'openai', handle })

const MODELS = '/v1/models/'

type Served = Pick<Route, 'shape' | 'pages'>

const serving =
  (door: Door, { shape, pages }: Served, handle: (incoming: Incoming) => Response | Promise<Response>): Serve =>
  (asked, scope) => {
    const { cors, via } = door.config
    const incoming = new Incoming(asked, scope, door.ports, shape)
    incoming.memory = door.bodyMemory.open()
    if (cors !== null && pages) incoming.cors = corsHeaders(cors, asked.headers)
    return guarded(incoming, door.ports, hasPassed(asked.headers.get('via'), via) ? refuseLoop : handle, door.telemetry.refused)
  }

/** What goes to engines, by path, all of it POST. A platform that finds the path by itself may call these without the app. */
export function enginePosts(door: Door): ReadonlyMap<string, Serve> {
  return new Map(endpoints.map((endpoint) => [endpoint.path, serving(door, { ...endpoint, pages: true }, (incoming) => proxy(door, endpoint, incoming))]))
}

/** The rest of what clients of engines use. */
function clientRoutes(door: Door): Route[] {
  const routes: Route[] = [
    get('/v1/models', (incoming) => listModels(door, incoming)),
    // Names hold slashes, encoded or not.
    get(`${MODELS}*`, (incoming) => oneModel(door, incoming, nameIn(incoming.path.slice(MODELS.length)))),
    get('/v1/responses/:id', (incoming, c) => heldResponse(door, incoming, c.req.param('id'), '')),
    { ...get('/v1/responses/:id', (incoming, c) => heldResponse(door, incoming, c.req.param('id'), '')), method: 'DELETE' },
    post('/v1/responses/:id/cancel', (incoming, c) => heldResponse(door, incoming, c.req.param('id'), '/cancel')),
    get('/health', (incoming) => answerJson(incoming, { status: 'ok' })),
    get('/version', (incoming) => answerJson(incoming, { version: VERSION })),
  ]
  return routes.map((route) => ({ ...route, pages: true }))
}

/** Every other route of the gateway. What is not here is 404: nothing is passed through by accident. */
function routesOf(door: Door): Route[] {
  const live = new Live(door)
  return [
    ...clientRoutes(door),
    get('/ready', (incoming) => ready(door, incoming)),
    get('/metrics', metricsHandler(door)),
    get('/', (incoming) => dashboardPage(door.assets, incoming, 'overview.html')),
    get('/dashboard', (incoming) => dashboardPage(door.assets, incoming, 'index.html')),
    get('/dashboard/', dashboardSlash),
    get('/dashboard/:name', (incoming, c) => dashboardFile(door.assets, incoming, c.req.param('name') ?? '')),
    get('/v1/firstlight/live', (incoming) => watch(door, live, incoming)),
    ...(['GET', 'POST', 'PUT', 'DELETE'] as const).map((method): Route => ({ method, path: `${REGISTRY_PREFIX}*`, shape: 'openai', handle: (incoming) => lmcacheRegistry(door, incoming) })),
    post('/v1/firstlight/kv-events', kvEventsHandler(door)),
    post('/v1/firstlight/route', (incoming) => dryRun(door, incoming)),
    get(OUTLOOK_PATH, (incoming) => outlook(door, incoming)),
    get('/v1/firstlight/fleet', (incoming) => fleet(door, incoming)),
    get('/v1/firstlight/decisions/:id', (incoming, c) => decision(door, incoming, c.req.param('id'))),
    get('/v1/firstlight/requests/:id', (incoming, c) => request(door, incoming, c.req.param('id'))),
    post('/v1/firstlight/engines/:id/drain', (incoming, c) => setDraining(door, incoming, c.req.param('id'), true)),
    post('/v1/firstlight/engines/:id/undrain', (incoming, c) => setDraining(door, incoming, c.req.param('id'), false)),
  ]
}

/** The HTTP surface. Hono finds the handler; everything a handler throws becomes an answer in `guarded`. */
export function createApp(door: Door, posts: ReadonlyMap<string, Serve>): Hono<Env> {
  const app = new Hono<Env>()
  mountTtft(app, door)
  const routes = routesOf(door)
  for (const [path, serve] of posts) app.post(path, (c) => serve(c.req.raw, c.env))
  for (const route of routes) {
    app.on(route.method, route.path, (c) => serving(door, route, (incoming) => route.handle(incoming, c))(c.req.raw, c.env))
  }
  const known: readonly Omit<Route, 'handle'>[] = [...endpoints.map(({ path, shape }) => ({ path, shape, method: 'POST' as const, pages: true as const })), ...routes]
  for (const path of new Set(known.map((route) => route.path))) {
    const same = known.filter((route) => route.path === path)
    const allow = allowed(same.map((route) => route.method))
    const refuse = serving(door, same[0]!, (incoming) => preflight(incoming, door.config.cors, allow) ?? wrongMethod(incoming, allow))
    app.all(path, (c) => refuse(c.req.raw, c.env))
  }
  // A page that asked at a wrong address is to read that it did.
  const unknown = serving(door, { shape: 'openai', pages: true }, (incoming) => preflight(incoming, door.config.cors, 'GET, POST') ?? unknownRoute(incoming))
  app.notFound((c) => unknown(c.req.raw, c.env))
  return app
}

const refuseLoop = (): never => {
  throw loopFailure()
}

const allowed = (methods: readonly Method[]): string => methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ')

function wrongMethod(incoming: Incoming, allow: string): never {
  throw new Failure('method_not_allowed', `${incoming.request.method} is not allowed on ${incoming.path.slice(0, 100)}. Allowed: ${allow}.`, { headers: { allow } })
}

function unknownRoute(incoming: Incoming): never {
  throw new Failure('route_unknown', `Unknown URL: ${incoming.request.method} ${incoming.path.slice(0, 100)}. The base URL of this API ends in /v1.`)
}

/** May traffic be sent here? Says nothing about engines: those are the gateway's business. */
function ready(door: Door, incoming: Incoming): Response {
  const reason = door.draining ? 'draining' : door.keeper.trust === 'unconfigured' ? 'not_configured' : null
  return answerJson(incoming, reason === null ? { status: 'ready' } : { status: 'not_ready', reason }, reason === null ? 200 : 503)
}

function nameIn(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    return encoded
  }
}
