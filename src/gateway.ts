import { createApp } from './api/app.ts'
import { Authenticator } from './api/auth/authenticator.ts'
import { withinEdgeRegions } from './api/auth/residency.ts'
import { blockingFingerprints } from './api/prompt/blocking-fingerprint.ts'
import type { GatewayStatus } from './api/gateway-status.ts'
import { adminRoutes } from './api/routes/admin-routes.ts'
import { dashboardRoutes } from './api/routes/dashboard-routes.ts'
import { healthRoutes } from './api/routes/health-routes.ts'
import { inferenceRoutes } from './api/routes/inference-routes.ts'
import { lmcacheRoutes } from './api/routes/lmcache-routes.ts'
import { metricsText } from './api/metrics.ts'
import { metricsRoutes } from './api/routes/metrics-routes.ts'
import { modelRoutes } from './api/routes/model-routes.ts'
import { ttftRoutes } from './api/routes/ttft-routes.ts'
import { dashboardSnapshot } from './api/dashboard-snapshot.ts'
import type { Caller } from './api/auth/caller.ts'
import { drain, supersede } from './api/drain.ts'
import { EdgePrompts } from './api/prompt/edge-prompts.ts'
import type { ExchangeParts } from './api/inference-exchange.ts'
import { InferenceObserver } from './api/inference-observer.ts'
import type { App } from './api/new-app.ts'
import { type MeasurePrompt, noLookups } from './api/prompt/admission-builder.ts'
import { permittedOptions } from './api/option-permissions.ts'
import type { ParseParts } from './api/body/parse-request.ts'
import { editOf } from './api/body/pool-edits.ts'
import { requestEnd } from './api/request-end.ts'
import { requestedOptions } from './api/body/requested-options.ts'
import { ModelRegistry } from './api/model-registry.ts'
import { type MirrorParts, Mirrors } from './api/mirrors.ts'
import { PromptAnalyzers, type VocabularyOf } from './api/prompt/prompt-analyzers.ts'
import type { HttpRequest } from './api/request-context.ts'
import { ReportedAdapters } from './api/reported-adapters.ts'
import type { WorkerGroup, GroupQuery } from './api/worker-group.ts'
import { answerGroupQuery } from './api/group-queries.ts'
import type { Config } from './config.ts'
import { RequestCosts } from './api/request-costs.ts'
import { MirrorCounts } from './core/traffic/mirror-counts.ts'
import { gatewayState, type GatewayState } from './gateway-state.ts'
import { FleetHistory } from './core/reports/fleet-history.ts'
import { withCanary } from './origin/canary/canary.ts'
import { withHeartbeatsWhileWaiting } from './origin/waiting-stream.ts'
import { CurrentRoutes } from './origin/current-routes.ts'
import { DigestCache } from './origin/digests/digest-cache.ts'
import { FleetProbe } from './origin/probes/fleet-probe.ts'
import type { Exchange } from './origin/exchange.ts'
import type { PoolRoute } from './origin/pool-route.ts'
import { forward } from './origin/forward.ts'
import { OnePoolDigests } from './origin/digests/one-pool-digests.ts'
import type { PoolDigests } from './origin/digests/pool-digests.ts'
import { CacheLookups } from './origin/lmcache/cache-lookups.ts'
import { requestedModel, weightedModel } from './api/body/choose-model.ts'
import { WeightedModels } from './api/weighted-models.ts'
import type { ProbeSoon } from './origin/attempt-context.ts'
import { oncePerPool } from './origin/once-per-pool.ts'
import { stepsByPool } from './origin/pool-steps.ts'
import { WaitingRequests } from './origin/placement/waiting-requests.ts'
import type { Ports } from './ports.ts'
import type { AssetFiles } from './ports/assets.ts'
import type { RequestScope } from './ports/request-scope.ts'
import type { TextFormat } from './telemetry/prometheus-text.ts'

/** The gateway as one fetch function. */
export interface Gateway {
  /** Answers a request: a web `Request`, or a platform's own view of one. Never rejects. */
  fetch(request: HttpRequest, scope: RequestScope): Promise<Response>
  /**
   * Answers like `fetch` for a proxy that moves the bytes itself (`RequestScope.delivery`), with the routes of
   * inference and models only. null: the configuration has no endpoint picker.
   */
  readonly place: Gateway['fetch'] | null
  /** Probes the engines that are due and reports to the pool states. A timer calls it often (Node: every 50 ms). */
  probe(): Promise<void>
  /** Answers a query of another gateway of the worker group. */
  answer(query: GroupQuery): Promise<unknown>
  /** View of the fleet for the dashboard, as JSON. */
  view(): Promise<unknown>
  /** All metrics as `/metrics` shows them. Default: the Prometheus format. */
  metricsText(format?: TextFormat): Promise<string>
  /** Starts the drain: `/ready` returns 503 and new requests are refused; running ones continue. */
  drain(): void
  /** Records when a newer configuration was refused, for views. null: none was. */
  configRefused(at: number | null): void
  /**
   * Another gateway takes new requests from now on. Running ones continue; dashboard viewers reconnect to the other
   * one, and waiting requests of removed keys are answered.
   * @param endsWaits they are answered now; otherwise when they get a place. Default: true
   */
  supersede(next: Pick<Gateway, 'config'>, endsWaits?: boolean): void
  /**
   * Answers like `fetch`, but has the routes of these groups only: other paths are 404. For a program that puts its own
   * middleware in front of each group.
   */
  only(groups: readonly RouteGroup[]): Gateway['fetch']
  /** Each group of routes. */
  readonly routes: Readonly<Record<RouteGroup, App>>
  readonly config: Config
  /** For the gateway that replaces this one. */
  readonly state: GatewayState
}

/** Groups of routes. */
export type RouteGroup = 'inference' | 'models' | 'health' | 'metrics' | 'admin' | 'dashboard' | 'lmcache' | 'ttft'

export interface GatewayOptions {
  /** Vocabularies that the entry point has loaded. Absent: prompts are measured in bytes. */
  readonly vocabularyOf?: VocabularyOf
  /** Files of the dashboard. Absent: `/dashboard` explains how to build them. */
  readonly assets?: AssetFiles
  /** Present if several gateways serve one address. */
  readonly workerGroup?: WorkerGroup
  /** State of the gateway that this one replaces. */
  readonly predecessor?: GatewayState
}

interface PromptParts {
  readonly analyzers: PromptAnalyzers
  readonly fingerprintOf: (route: PoolRoute) => number | null
  readonly authenticator: Authenticator
}

/** How prompts are measured. Only gateways in front of others, or behind them, exchange measured prompts. */
function promptParts(
  config: Config,
  ports: Ports,
  { analyzers, fingerprintOf, authenticator }: PromptParts,
): Pick<ExchangeParts, 'measure' | 'edgePrompts'> {
  const measureHere: MeasurePrompt = (_, route, request) => analyzers.measure(route, request)
  const isAlone = !authenticator.hasEdges && config.clusters.every(({ gateway }) => gateway === null)
  if (isAlone) return { edgePrompts: null, measure: measureHere }
  const edgePrompts = new EdgePrompts({ analyzers, fingerprintOf, hasKeys: config.keys !== null, ports })
  return {
    edgePrompts,
    measure: (...prompt) => edgePrompts.measuredByEdge(...prompt) ?? measureHere(...prompt),
  }
}

/** How options are read from a request, and how its body is changed for engines. */
const bodyParts = ({ trust }: Authenticator): Pick<ExchangeParts, 'editsOf'> & Pick<ParseParts, 'optionsOf'> => ({
  optionsOf: trust === 'keys' ? permittedOptions(requestedOptions) : requestedOptions,
  editsOf: oncePerPool(editOf),
})

/** LMCache lookups, if a pool has them. */
function lookupParts({ routes }: ModelRegistry, ports: Ports) {
  const lookups = routes.some(({ pool }) => pool.lmcache !== null) ? new CacheLookups(ports) : null
  return { lookups, promptLookups: lookups ?? noLookups }
}

/** Whether requests are sent to one of several clusters, or to engines behind another gateway. */
const choosesClusters = ({ clusters }: Config): boolean =>
  clusters.length > 1 || clusters.some(({ gateway }) => gateway !== null)

const newStatus = (): GatewayStatus => ({
  configRefusedAt: null,
  draining: false,
  retired: false,
})

/** null: there are no weighted models. */
const weightedModelsOf = ({ weightedModels }: Config, ports: Ports): WeightedModels | null =>
  weightedModels.length === 0 ? null : new WeightedModels(weightedModels, ports)

const anywhere = (caller: Caller): Caller => caller

/** Regions that requests prefer, and those that they must not leave. */
const regionParts = (config: Config): Pick<ExchangeParts, 'regionPreference'> & Pick<ParseParts, 'inRegions'> => {
  const { regionPreference: preference } = config
  const order = preference?.order ?? null
  return {
    regionPreference: preference === null || order === null ? null : { ...preference, order },
    inRegions: choosesClusters(config) ? withinEdgeRegions : anywhere,
  }
}

/** How a requested name becomes a model with its pools. */
const modelParts = (config: Config, ports: Ports, models: ModelRegistry, weighted: WeightedModels | null) => ({
  ...regionParts(config),
  weighted,
  adapters: ReportedAdapters.of({ ports, models }),
  chooseModel: weighted === null ? requestedModel(models) : weightedModel(weighted, models),
})

/** Builds everything that outlives a request. Each route group and middleware gets the parts that it names. */
function gatewayParts(config: Config, ports: Ports, options: GatewayOptions) {
  const models = new ModelRegistry(config)
  const { predecessor, workerGroup = null, vocabularyOf = () => null, assets = async () => null } = options
  const authenticator = new Authenticator(config, ports)
  const { hasBudgets } = authenticator
  const state = gatewayState(config, ports, { predecessor, workerGroup, vocabularyOf, hasBudgets })
  const { analyzers, currentRoutes, dueAt } = state
  const fingerprintOf = blockingFingerprints(analyzers)
  const digests = new (models.hasChoice ? DigestCache : OnePoolDigests)({ ports, via: config.via, fingerprintOf })
  const prober = workerGroup?.prober ?? new FleetProbe(models.routes, ports, { digests, via: config.via, dueAt })
  const probeSoon: ProbeSoon = (route, engine) => prober.probeSoon(route, engine)
  const stepsOf = stepsByPool({ comments: config.ttft.comment, choosesClusters: choosesClusters(config) })
  const costs = costsOf(models, ports, state)
  const weighted = weightedModelsOf(config, ports)
  const mirrorCounts = hasMirrors(config) ? new MirrorCounts() : null
  const prompts = promptParts(config, ports, { analyzers, fingerprintOf, authenticator })
  const ends = { ...state, config, ports, workerGroup, authenticator, weighted, mirrorCounts, costs }
  return {
    state,
    ...state,
    prober,
    config,
    ports,
    status: newStatus(),
    models,
    workerGroup,
    digests,
    fingerprintOf,
    authenticator,
    ...prompts,
    ...bodyParts(authenticator),
    ...modelParts(config, ports, models, weighted),
    mirrorCounts,
    costs,
    observer: new InferenceObserver({ ...state, ...prompts, costs, end: requestEnd(ends) }),
    ...lookupParts(models, ports),
    engineHeaders: { via: config.via, tokenHeader: config.jwt?.header ?? null },
    waitingRequests: new WaitingRequests(),
    history: new FleetHistory(),
    assets,
    ...forwardParts(models, ports, { digests, probeSoon, stepsOf, currentRoutes }),
  }
}

const hasMirrors = ({ clusters, weightedModels }: Config): boolean =>
  [...clusters.flatMap(({ pools }) => pools), ...weightedModels].some(({ mirror }) => mirror !== null)

/** Mirror traffic, whose requests get one attempt. null: no request is repeated. */
function mirrorsOf(
  parts: Omit<MirrorParts, 'mirrorCounts' | 'forwardOnce'> &
    Pick<ReturnType<typeof gatewayParts>, 'mirrorCounts' | 'digests' | 'probeSoon'>,
  config: Config,
): Mirrors | null {
  const { mirrorCounts, ports, digests, probeSoon } = parts
  if (mirrorCounts === null) return null
  const stepsOf = stepsByPool({ comments: false, choosesClusters: choosesClusters(config), sends: 'once' })
  const options = { probeSoon, stepsOf, maxAttempts: 1 }
  return new Mirrors({ ...parts, mirrorCounts, forwardOnce: forwardBy(ports, digests, options) })
}

type Forward = (exchange: Exchange) => Promise<Response>

const forwardBy =
  (ports: Ports, digests: PoolDigests, options: Parameters<typeof forward>[3]): Forward =>
  (exchange) =>
    forward(exchange, ports, digests, options)

interface ForwardSources {
  readonly digests: PoolDigests
  readonly probeSoon: ProbeSoon
  readonly stepsOf: ReturnType<typeof stepsByPool>
  readonly currentRoutes: CurrentRoutes
}

/** Forwarding of requests. The predecessors of this gateway use its routes, too. */
function forwardParts(models: ModelRegistry, ports: Ports, { digests, ...options }: ForwardSources) {
  options.currentRoutes.adopt(models.routes)
  return { probeSoon: options.probeSoon, forward: forwarderOf(models, ports, forwardBy(ports, digests, options)) }
}

const hasRoles = ({ engines }: PoolRoute['pool']): boolean => engines.some(({ role }) => role !== 'any')

/** Only gateways with pools in which streams wait send heartbeats then; only those with a canary repeat requests. */
function forwarderOf({ routes }: ModelRegistry, ports: Ports, plain: Forward): Forward {
  const hasWaits = routes.some(({ pool }) => pool.queue !== null || pool.adapterLoading !== null || hasRoles(pool))
  const waiting = hasWaits ? withHeartbeatsWhileWaiting(plain, ports) : plain
  return routes.some(({ pool }) => pool.canary !== null) ? withCanary(waiting, ports) : waiting
}

/** Costs of requests. null: no pool counts them. */
const costsOf = (models: ModelRegistry, ports: Ports, { costUsage, budgets }: GatewayState): RequestCosts | null =>
  countsCosts(models) ? new RequestCosts({ ports, costs: costUsage, budgets }) : null

const countsCosts = ({ routes }: ModelRegistry): boolean => routes.some(({ pool }) => pool.cost !== null)

type GatewayParts = ReturnType<typeof gatewayParts> & { readonly mirrors: Mirrors | null }

/** Inference routes whose requests are placed once, because a proxy delivers them. */
function placingRoutes(parts: GatewayParts): App {
  const { config, ports, digests, probeSoon, currentRoutes } = parts
  const stepsOf = stepsByPool({
    comments: config.ttft.comment,
    choosesClusters: choosesClusters(config),
    sends: 'by_proxy',
  })
  // A proxy can be given one engine. Early legs are the gateway's own.
  const options = { probeSoon, stepsOf, currentRoutes, maxFinalLegs: 1 }
  return inferenceRoutes({ ...parts, mirrors: null, forward: forwardBy(ports, digests, options) })
}

const routesOf = (parts: GatewayParts): Gateway['routes'] => ({
  inference: inferenceRoutes(parts),
  models: modelRoutes(parts),
  health: healthRoutes(parts),
  metrics: metricsRoutes(parts),
  admin: adminRoutes(parts),
  dashboard: dashboardRoutes(parts),
  lmcache: lmcacheRoutes(parts),
  ttft: ttftRoutes(parts),
})

export function createGateway(config: Config, ports: Ports, options: GatewayOptions = {}): Gateway {
  const own = gatewayParts(config, ports, options)
  const parts = { ...own, mirrors: mirrorsOf(own, config) }
  const { status, prober } = parts
  const routes = routesOf(parts)
  const fetchOf = (groups: readonly App[]): Gateway['fetch'] => {
    const app = createApp(parts, groups)
    // Hono reads only `method` and `url`; the handlers read the rest of a request.
    // No async function: its promise would follow that of Hono, two turns of the microtask queue later.
    return (request, scope) => Promise.resolve(app.fetch(request as Request, scope))
  }
  return {
    fetch: fetchOf(Object.values(routes)),
    place: config.epp === null ? null : fetchOf([placingRoutes(parts), routes.models]),
    only: (groups) => fetchOf(groups.map((group) => routes[group])),
    probe: () => prober.round(),
    answer: (query) => answerGroupQuery(parts, query),
    view: () => dashboardSnapshot(parts),
    metricsText: (format = 'prometheus') => metricsText(parts, format),
    drain: () => drain(parts),
    configRefused: (at) => void (status.configRefusedAt = at),
    supersede: (next, endsWaits = true) => supersede(parts, next.config, endsWaits),
    routes,
    config,
    state: parts.state,
  }
}
