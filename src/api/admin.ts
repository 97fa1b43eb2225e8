import { ANYONE, type Caller } from './auth/caller.ts'
import type { Decision } from '../core/contract/decision.ts'
import type { Refusal } from '../core/contract/refusal.ts'
import type { RequestAdmission } from '../origin/request-source.ts'
import { poolOf, type PoolRoute } from '../origin/pool-route.ts'
import { targetOf } from '../origin/rank-targets.ts'
import { rankIdOf, rankNumberOf, serverIdOf } from '../core/contract/rank-id.ts'
import { Failure } from '../failure.ts'
import { hasEnded, type RequestRecord } from '../core/reports/request-record.ts'
import type { ExchangeParts } from './inference-exchange.ts'
import { AdmissionBuilder, type AdmissionSources } from './prompt/admission-builder.ts'
import { audit } from './audit.ts'
import { drainInRegion, regionEngines, regionRequest } from './region-engines.ts'
import type { Config } from '../config.ts'
import type { DigestCache } from '../origin/digests/digest-cache.ts'
import type { CacheLookups } from '../origin/lmcache/cache-lookups.ts'
import type { Ports } from '../ports.ts'
import type { StoredResponses } from '../ports/stored-responses.ts'
import type { GatewayStatus } from './gateway-status.ts'
import type { ModelRegistry } from './model-registry.ts'
import type { WorkerGroup } from './worker-group.ts'
import { endpointOf, endpoints, type ProtocolEndpoint } from '../protocols/protocols.ts'
import { aggregateCounts, type CountParts, findRequestInGroup, flushGroup } from './group-queries.ts'
import { jsonResponse } from './json-response.ts'
import type { DecisionView, DryRunView, RefusalView } from './openapi/decision.ts'
import type { DrainView } from './openapi/engine-commands.ts'
import type { FleetView, LookupsView, PoolView } from './openapi/fleet.ts'
import type { RequestRecordView, RequestSummaryView, RequestView } from './openapi/request.ts'
import type { BudgetView, CostsView, UsageView } from './openapi/usage.ts'
import type { AllFields } from './openapi/view.ts'
import type { WeightedModelsView } from './openapi/weighted-model.ts'
import { idParam } from './path-id.ts'
import type { RequestContext } from './request-context.ts'
import { secondsParam } from './seconds-param.ts'
import type { RecentRequest } from '../core/reports/recent-request.ts'
import type { DashboardStream } from './dashboard-stream.ts'
import { digestsOf, type FleetParts, regionsOf } from './fleet-digests.ts'
import { gatewayView, poolViews } from './fleet-view.ts'
import { countsView } from './issued-keys.ts'
import { requestedOptions } from './body/requested-options.ts'
import { parseInferenceRequest, type ParseParts } from './body/parse-request.ts'
import { reportView } from './ttft-reports.ts'
import type { CostCounts } from '../core/cost/cost-usage.ts'
import { toSnakeCase } from '../snake-case.ts'

export interface AdminParts extends CountParts, FleetParts, AdmissionSources {
  readonly config: Pick<Config, 'version' | 'limits' | 'ttft'>
  readonly ports: FleetParts['ports'] & ParseParts['ports'] & Pick<Ports, 'now' | 'ttft' | 'origin'>
  readonly models: ModelRegistry
  readonly adapters: ParseParts['adapters']
  readonly chooseModel: ParseParts['chooseModel']
  readonly inRegions: ParseParts['inRegions']
  readonly regionPreference: ExchangeParts['regionPreference']
  readonly storedResponses: StoredResponses
  readonly lookups: CacheLookups | null
  readonly digests: FleetParts['digests'] & Pick<DigestCache, 'order'>
  readonly startedAt: number
  readonly status: GatewayStatus
  readonly workerGroup: Pick<WorkerGroup, 'ask' | 'startedAt' | 'hub'> | null
}

export interface WatchParts {
  readonly workerGroup: Pick<WorkerGroup, 'hub'> | null
}

/**
 * Lists every pool with its engines, as its pool state reports them. An unreachable pool is marked, not fatal.
 */
export async function fleet(parts: AdminParts, incoming: RequestContext): Promise<Response> {
  const { lookups }: { readonly lookups: readonly LookupsView[] } = await aggregateCounts(parts)
  const [digests, regions, engines] = await Promise.all([
    digestsOf(parts),
    regionsOf(parts, true),
    regionEngines(parts, incoming),
  ])
  const pools = await poolViews(parts, { digests, regions })
  const view: AllFields<FleetView> = {
    ...gatewayView(parts, digests),
    // Cloudflare adds it to requests of placed Workers.
    placement: incoming.request.headers.get('cf-placement') ?? undefined,
    pools: pools.map((pool, at): PoolView => ({ ...pool, lookups: lookups[at], region_engines: engines[at] })),
  }
  return jsonResponse(incoming, view)
}

interface UsageParts extends CountParts {
  readonly config: Pick<Config, 'keys' | 'teams'>
  readonly startedAt: number
  readonly workerGroup: AdminParts['workerGroup']
}

/** Requests and tokens of each key since the start. */
export async function usage(parts: UsageParts, incoming: RequestContext): Promise<Response> {
  const { usage: byKey, costs } = await aggregateCounts(parts)
  const view: AllFields<UsageView> = {
    since: new Date(parts.workerGroup?.startedAt ?? parts.startedAt).toISOString(),
    keys: rowsOf(byKey, (key, counts) => ({
      key,
      ...countsView(counts),
      ...(costs?.key[key] && costsView(costs.key[key])),
    })),
    budgets: parts.budgets === null ? undefined : await budgetRows(parts),
    teams: costs && rowsOf(costs.team, (team, one) => ({ team, ...costsView(one) })),
    models: costs && rowsOf(costs.model, (model, one) => ({ model, ...costsView(one) })),
  }
  return jsonResponse(incoming, view)
}

/** Budgets of the configuration. Those of issued keys are in their list. */
async function budgetRows({ budgets, config: { keys, teams } }: UsageParts): Promise<BudgetView[]> {
  if (budgets === null) return []
  const accounts = [
    ...(keys ?? []).map((key) => ({ account: key.name, budgets: key.budgets })),
    ...teams.map((team) => ({ account: `team:${team.name}`, budgets: team.budgets })),
  ]
  const rows: BudgetView[] = []
  for (const { account, budgets: own } of accounts)
    if (own !== null) for (const state of await budgets.read(account, own)) rows.push({ account, ...state })
  return rows
}

/** Rows in the order of the names. */
const rowsOf = <Counts, Row>(
  counts: Readonly<Record<string, Counts>>,
  rowOf: (name: string, one: Counts) => Row,
): Row[] =>
  Object.entries(counts)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, one]) => rowOf(name, one))

const costsView = (costs: CostCounts): CostsView => toSnakeCase(costs)

/** Targets of weighted models side by side: state, and counts since the start. */
export async function weightedModels(parts: AdminParts, incoming: RequestContext): Promise<Response> {
  const { targets } = await aggregateCounts(parts)
  const view: WeightedModelsView = { weighted_models: parts.weighted?.view(targets ?? {}) ?? [] }
  return jsonResponse(incoming, view)
}

/** Streams dashboard views. */
export async function watch(
  { workerGroup }: WatchParts,
  live: DashboardStream,
  incoming: RequestContext,
): Promise<Response> {
  const { method, headers } = incoming.request
  const groupFrames = method === 'HEAD' ? null : await workerGroup?.hub?.live(headers.get('last-event-id'))
  return live.open(incoming, groupFrames ?? null)
}

/** Ranks a request without sending or booking anything. The body is the request; `?endpoint=` is its path. */
export async function dryRun(parts: AdminParts, incoming: RequestContext): Promise<Response> {
  const endpoint = dryEndpoint(new URLSearchParams(incoming.query).get('endpoint'))
  const caller: Caller = { ...ANYONE, tenant: 'admin', edge: false }
  const inference = await parseInferenceRequest({ ...parts, optionsOf: requestedOptions }, endpoint, incoming, caller)
  const admissions = new AdmissionBuilder(inference, parts)
  const refusals: Array<DryRunView['refusals'][number]> = []
  const { regionPreference } = parts
  const routed = { routes: inference.routes, scope: incoming.scope, source: admissions, regionPreference }
  for (const route of parts.digests.order(routed)) {
    await admissions.lookUpCaches(route)
    const answer = await rank(parts, route, admissions.admission(route))
    if ('decision' in answer) return dryRunResponse(incoming, { decision: decisionView(answer.decision), refusals })
    refusals.push({ cluster: route.cluster.id, pool: route.pool.model, ...refusalView(answer.refusal) })
  }
  return dryRunResponse(incoming, { decision: null, refusals })
}

const dryRunResponse = (incoming: RequestContext, view: DryRunView): Response => jsonResponse(incoming, view)

const decisionView = (decided: Decision): DecisionView => toSnakeCase(decided)

const refusalView = (refusal: Refusal): RefusalView => toSnakeCase(refusal)

type RankResult = { readonly decision: Decision } | { readonly refusal: Refusal }

function rank(parts: AdminParts, route: PoolRoute, admission: RequestAdmission): Promise<RankResult> {
  const pool = poolOf(parts.ports, route)
  if (pool.decisions === undefined)
    throw new Failure('not_found', 'A dry run is not available for the pool of this model.')
  return pool.decisions.dryRun({ ...admission, attempt: 0, avoid: [], configVersion: parts.config.version })
}

function dryEndpoint(path: string | null): ProtocolEndpoint {
  const endpoint = endpointOf(path ?? '/v1/chat/completions')
  if (endpoint !== undefined) return endpoint
  throw new Failure('bad_value', `endpoint is not one of: ${endpoints.map((known) => known.path).join(', ')}.`, {
    param: 'endpoint',
  })
}

/** Explains a routing decision. Its id is in `x-firstlight-decision` of the response. */
export async function decision(parts: AdminParts, incoming: RequestContext, id: string | undefined): Promise<Response> {
  const found = await findDecision(parts, idParam(id, 'decision'))
  if (found !== null) return jsonResponse(incoming, decisionView(found))
  throw new Failure(
    'not_found',
    'Decision not found. Only the most recent decisions are stored. The id is in the response header ' +
      'x-firstlight-decision.',
  )
}

async function findDecision(parts: AdminParts, id: string): Promise<Decision | null> {
  const answers = await Promise.allSettled(
    parts.models.routes.map(async (route) => poolOf(parts.ports, route).decisions?.explain(id)),
  )
  for (const answer of answers) if (answer.status === 'fulfilled' && answer.value) return answer.value
  return null
}

/** Returns the record of a request, by the gateway's id or the client's x-request-id, with its decision. */
export async function request(parts: AdminParts, incoming: RequestContext, id: string | undefined): Promise<Response> {
  const requestedId = idParam(id, 'request')
  const recent = await findRequestInGroup(parts, requestedId)
  const explanation = await findDecision(parts, recent?.record.id ?? requestedId)
  await flushGroup(parts)
  const report = parts.config.ttft.enabled ? ((await parts.ports.ttft?.find(requestedId)) ?? null) : null
  const region = await regionRequest(parts, incoming, { id: requestedId, cluster: recent?.record.cluster ?? null })
  if (recent === null && explanation === null && report === null && region === null) {
    throw new Failure('not_found', 'Request not found. This gateway stores the last 1,000 requests in memory.')
  }
  const record = (recent !== null && hasEnded(recent.record) ? recent.record : report?.record) ?? null
  const view: AllFields<RequestView> = {
    request: recent === null ? null : summaryView(recent),
    stages_ms: record?.stages ?? null,
    record: record === null ? null : recordView(record),
    ttft_report: report === null ? null : reportView(report),
    decision: explanation === null ? null : decisionView(explanation),
    region: region ?? undefined,
  }
  return jsonResponse(incoming, view)
}

const recordView = (record: RequestRecord): RequestRecordView => toSnakeCase(record)

function summaryView({ record, model, tenant }: RecentRequest): RequestSummaryView {
  const { id, requestId, receivedAt, path, status } = record
  const ended = hasEnded(record)
  return { id, request_id: requestId, received_at: receivedAt, path, model, tenant, status: ended ? status : null }
}

/** Longest deadline of a drain, seconds. */
const MAX_DEADLINE_S = 86_400

/**
 * Drains or undrains an engine. Running requests continue; with `deadline_s`, streams that can be continued leave the
 * engine after that many seconds.
 */
export async function setDraining(
  parts: AdminParts,
  incoming: RequestContext,
  id: string | undefined,
  draining: boolean,
): Promise<Response> {
  const engine = engineParam(id)
  const query = new URLSearchParams(incoming.query)
  const requestedCluster = query.get('cluster')
  const deadlineS = draining ? query.get('deadline_s') : null
  const moveAt =
    deadlineS === null ? null : parts.ports.now() + secondsParam('deadline_s', deadlineS, MAX_DEADLINE_S) * 1000
  const routes = await routesWith(parts, engine, requestedCluster)
  if (routes.length === 0) {
    const inRegion = await drainInRegion(parts, incoming, { engine, draining, query })
    if (inRegion !== null) {
      audit(parts, incoming, { action: draining ? 'drain' : 'undrain', ...inRegion })
      return jsonResponse(incoming, inRegion)
    }
    throw new Failure(
      'not_found',
      `There is no engine '${engine}'${requestedCluster === null ? '' : ` in a cluster '${requestedCluster}'`}. GET ` +
        '/v1/firstlight/fleet lists them.',
    )
  }
  const clusters = [...new Set(routes.map(({ cluster }) => cluster.id))]
  if (clusters.length > 1) {
    throw new Failure(
      'bad_value',
      `Engine '${engine}' exists in the clusters ${clusters.join(', ')}. Add ?cluster=NAME.`,
      { param: 'cluster' },
    )
  }
  await Promise.all(
    routes.map(({ cluster, pool }) =>
      parts.ports
        .pool(cluster.id, pool.model)
        .observe([{ kind: 'drain', engine, draining, ...(moveAt === null ? {} : { moveAt }) }]),
    ),
  )
  const facts = { cluster: clusters[0]!, engine }
  audit(parts, incoming, {
    action: draining ? 'drain' : 'undrain',
    ...facts,
    ...(moveAt === null ? {} : { move_at: moveAt }),
  })
  const view: DrainView = { ...facts, draining, move_at: moveAt ?? undefined }
  return jsonResponse(incoming, view)
}

/** An engine, a server of ranks, or a rank: `a/1`. */
function engineParam(id: string | undefined): string {
  const number = rankNumberOf(id ?? '')
  return number === null ? idParam(id, 'engine') : rankIdOf(idParam(serverIdOf(id!), 'engine'), number)
}

/** Pools with the engine. Ranks that are found in metrics are known to the pool alone. */
async function routesWith(
  { models, ports }: AdminParts,
  engine: string,
  requestedCluster: string | null,
): Promise<readonly PoolRoute[]> {
  const routes = models.routes.filter(
    ({ cluster, targets }) =>
      targetOf(targets, engine) !== undefined && (requestedCluster === null || cluster.id === requestedCluster),
  )
  const hasEngine = async (route: PoolRoute): Promise<boolean> =>
    route.targets.has(engine) || (await poolOf(ports, route).digest()).engines.some(({ id }) => id === engine)
  const found = await Promise.all(routes.map(hasEngine))
  return routes.filter((_, at) => found[at])
}
