import type { Context } from 'hono'
import { HonoBase } from 'hono/hono-base'
import { TrieRouter } from 'hono/router/trie-router'
import { getPath } from 'hono/utils/url'
import type { RequestScope } from '../ports/request-scope.ts'
import { Failure } from '../failure.ts'
import { REGION_DIGEST_PATH } from '../origin/regions/region-digest-client.ts'
import { hasPassed, loopFailure } from '../origin/via.ts'
import { decision, dryRun, fleet, request, setDraining, usage, watch } from './admin.ts'
import { corsHeaders, preflight } from './cors.ts'
import type { GatewayContext } from './context.ts'
import { openaiErrors, type ErrorShape } from '../protocols/error-shape.ts'
import { endpoints, protocolOf } from '../protocols/protocols.ts'
import { jsonResponse } from './json-response.ts'
import { type HttpRequest, openRequest, type RequestContext } from './request-context.ts'
import { REGISTRY_PREFIX } from './lmcache/registry-path.ts'
import { splitUrl } from '../url.ts'
import { withErrorBoundary } from './error-boundary.ts'
import { DashboardStream } from './dashboard-stream.ts'
import { dashboardFile, dashboardPage, dashboardSlash } from './dashboard-pages.ts'
import { kvEventsHandler } from './kv-events.ts'
import { lmcacheRegistry } from './lmcache/registry-handlers.ts'
import { metricsHandler } from './metrics.ts'
import { listModels, oneModel } from './models.ts'
import { openApi } from './openapi.ts'
import { regionDigest } from './region-digest.ts'
import { proxy } from './inference.ts'
import { storedResponse } from './stored-responses.ts'
import { mountTtft } from './ttft-reports.ts'
import { VERSION } from '../version.ts'

type Env = { Bindings: RequestScope }
type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'
type RouteHandler = (incoming: RequestContext, context: Context<Env>) => Response | Promise<Response>

/** Answers one request. Never rejects. */
type RequestServer = (request: HttpRequest, scope: RequestScope) => Promise<Response>

interface Route {
  readonly method: Method
  readonly path: string
  readonly shape: ErrorShape
  readonly handle: RouteHandler
  /** CORS applies to the engines' API only, never to the admin API. */
  readonly pages?: true
}

const get = (path: string, handle: RouteHandler): Route => ({ method: 'GET', path, shape: openaiErrors, handle })
const post = (path: string, handle: RouteHandler): Route => ({ method: 'POST', path, shape: openaiErrors, handle })

const MODELS = '/v1/models/'

type ServedRoute = Pick<Route, 'shape' | 'pages'>

const serving =
  (
    gatewayContext: GatewayContext,
    { shape, pages }: ServedRoute,
    handle: (incoming: RequestContext) => Response | Promise<Response>,
  ): RequestServer =>
  (httpRequest, scope) => {
    const { cors, via } = gatewayContext.config
    const incoming = openRequest(httpRequest, scope, gatewayContext.ports, shape)
    incoming.memory = gatewayContext.bodyMemory.open()
    if (cors !== null && pages) incoming.cors = corsHeaders(cors, httpRequest.headers)
    return withErrorBoundary(
      incoming,
      gatewayContext.ports,
      hasPassed(httpRequest.headers.get('via'), via) ? refuseLoop : handle,
      gatewayContext.telemetry.countRefusal,
    )
  }

/** The routes of the engines' API, for clients. */
function clientRoutes(gatewayContext: GatewayContext): Route[] {
  const routes: Route[] = [
    ...endpoints.map((endpoint) => ({
      ...post(endpoint.path, (incoming) => proxy(gatewayContext, endpoint, incoming)),
      shape: endpoint.protocol.errors,
    })),
    get('/v1/models', (incoming) => listModels(gatewayContext, incoming)),
    // Names contain slashes, encoded or not.
    get(`${MODELS}*`, (incoming) => oneModel(gatewayContext, incoming, nameIn(incoming.path.slice(MODELS.length)))),
    get('/v1/responses/:id', (incoming, c) => storedResponse(gatewayContext, incoming, c.req.param('id'), '')),
    {
      ...get('/v1/responses/:id', (incoming, c) => storedResponse(gatewayContext, incoming, c.req.param('id'), '')),
      method: 'DELETE',
    },
    post('/v1/responses/:id/cancel', (incoming, c) =>
      storedResponse(gatewayContext, incoming, c.req.param('id'), '/cancel'),
    ),
    get('/health', (incoming) => jsonResponse(incoming, { status: 'ok' })),
    get('/version', (incoming) => jsonResponse(incoming, { version: VERSION })),
  ]
  return routes.map((route) => ({ ...route, pages: true }))
}

/** All other routes. An unknown path is 404; nothing is forwarded by default. */
function routesOf(gatewayContext: GatewayContext): Route[] {
  const live = new DashboardStream(gatewayContext)
  return [
    ...clientRoutes(gatewayContext),
    get('/ready', (incoming) => ready(gatewayContext, incoming)),
    get('/metrics', metricsHandler(gatewayContext)),
    get('/openapi.json', openApi),
    get('/', (incoming) => dashboardPage(gatewayContext.assets, incoming, 'overview.html')),
    get('/dashboard', (incoming) => dashboardPage(gatewayContext.assets, incoming, 'index.html')),
    get('/runbook', (incoming) => dashboardPage(gatewayContext.assets, incoming, 'runbook.html')),
    get('/dashboard/', dashboardSlash),
    get('/dashboard/:name', (incoming, c) => dashboardFile(gatewayContext.assets, incoming, c.req.param('name') ?? '')),
    get('/v1/firstlight/live', (incoming) => watch(gatewayContext, live, incoming)),
    ...(['GET', 'POST', 'PUT', 'DELETE'] as const).map((method): Route => ({
      method,
      path: `${REGISTRY_PREFIX}*`,
      shape: openaiErrors,
      handle: (incoming) => lmcacheRegistry(gatewayContext, incoming),
    })),
    post('/v1/firstlight/kv-events', kvEventsHandler(gatewayContext)),
    post('/v1/firstlight/route', (incoming) => dryRun(gatewayContext, incoming)),
    get(REGION_DIGEST_PATH, (incoming) => regionDigest(gatewayContext, incoming)),
    get('/v1/firstlight/fleet', (incoming) => fleet(gatewayContext, incoming)),
    get('/v1/firstlight/usage', (incoming) => usage(gatewayContext, incoming)),
    get('/v1/firstlight/decisions/:id', (incoming, c) => decision(gatewayContext, incoming, c.req.param('id'))),
    get('/v1/firstlight/requests/:id', (incoming, c) => request(gatewayContext, incoming, c.req.param('id'))),
    post('/v1/firstlight/engines/:id/drain', (incoming, c) =>
      setDraining(gatewayContext, incoming, c.req.param('id'), true),
    ),
    post('/v1/firstlight/engines/:id/undrain', (incoming, c) =>
      setDraining(gatewayContext, incoming, c.req.param('id'), false),
    ),
  ]
}

/**
 * Builds the HTTP surface. Hono finds the handler; `withErrorBoundary` answers what a handler throws.
 *
 * Handlers read `HttpRequest`, so a platform may pass its own lighter object with a URL of path and query only.
 */
export function createApp(gatewayContext: GatewayContext): HonoBase<Env> {
  // Hono's default router compiles all routes to one expression, which takes 5 ms of a cold start.
  const app = new HonoBase<Env>({ router: new TrieRouter(), getPath: pathOf })
  mountTtft(app, gatewayContext)
  const routes = routesOf(gatewayContext)
  for (const route of routes) {
    app.on(route.method, route.path, (c) =>
      serving(gatewayContext, route, (incoming) => route.handle(incoming, c))(c.req.raw, c.env),
    )
  }
  for (const path of new Set(routes.map((route) => route.path))) {
    const same = routes.filter((route) => route.path === path)
    const allow = allowed(same.map((route) => route.method))
    const refuse = serving(
      gatewayContext,
      same[0]!,
      (incoming) => preflight(incoming, gatewayContext.config.cors, allow) ?? wrongMethod(incoming, allow),
    )
    app.all(path, (c) => refuse(c.req.raw, c.env))
  }
  // CORS applies here too, so that a page can read the error of a wrong URL.
  const refuse = (incoming: RequestContext): Response =>
    preflight(incoming, gatewayContext.config.cors, 'GET, POST') ?? unknownRoute(incoming)
  app.notFound((c) => {
    const shape = protocolOf(pathOf(c.req.raw))?.errors ?? openaiErrors
    return serving(gatewayContext, { shape, pages: true }, refuse)(c.req.raw, c.env)
  })
  return app
}

/** Hono's own parser needs an absolute URL. */
const pathOf = (raw: Request): string => (raw.url.startsWith('/') ? splitUrl(raw.url).path : getPath(raw))

const refuseLoop = (): never => {
  throw loopFailure()
}

const allowed = (methods: readonly Method[]): string =>
  methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ')

function wrongMethod(incoming: RequestContext, allow: string): never {
  throw new Failure(
    'method_not_allowed',
    `${incoming.request.method} is not allowed on ${incoming.path.slice(0, 100)}. Allowed: ${allow}.`,
    { headers: { allow } },
  )
}

function unknownRoute({ request: { method }, path }: RequestContext): never {
  const shown = `Unknown URL: ${method} ${path.slice(0, 100)}.`
  // Anthropic's clients add /v1 to the base URL, OpenAI's do not.
  const next = path.startsWith('/v1/v1/')
    ? 'The client adds /v1 to its base URL: configure the base URL without /v1.'
    : 'The base URL of this API ends in /v1.'
  throw new Failure('route_unknown', `${shown} ${next}`)
}

/** Readiness of the gateway, independent of the engines. */
function ready(gatewayContext: GatewayContext, incoming: RequestContext): Response {
  const reason = gatewayContext.draining
    ? 'draining'
    : gatewayContext.authenticator.trust === 'unconfigured'
      ? 'not_configured'
      : null
  return jsonResponse(
    incoming,
    reason === null ? { status: 'ready' } : { status: 'not_ready', reason },
    reason === null ? 200 : 503,
  )
}

function nameIn(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    return encoded
  }
}
