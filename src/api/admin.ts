import type { Decision, Refusal } from '../core/cluster/contract.ts'
import type { Exchange, PoolRoute } from '../origin/exchange.ts'
import { Failure } from '../failure.ts'
import { Admissions } from './admissions.ts'
import { refuseDraining, type Door } from './door.ts'
import { endpoints, type Endpoint } from './endpoints.ts'
import { countedByAll, flushAll, recentOfAll } from './fellows.ts'
import { answerJson, idParam, type Incoming } from './incoming.ts'
import type { Live } from './live.ts'
import { digestsOf, gatewayView, poolViews, regionsOf } from './pool-view.ts'
import { understand } from './proxy.ts'
import { reportView } from './ttft.ts'
import { toWire } from './wire.ts'

/** Everything under `/v1/firstlight/` needs the admin key; the handlers begin with this. */
async function admitAdmin(door: Door, incoming: Incoming): Promise<void> {
  await door.keeper.admin(incoming.request.headers)
  incoming.line['tenant'] = 'admin'
}

/** What runs: every pool with its engines, as its cluster object sees them. A dark object is named, not fatal. */
export async function fleet(door: Door, incoming: Incoming): Promise<Response> {
  await admitAdmin(door, incoming)
  const { lookups } = await countedByAll(door)
  const [digests, regions] = await Promise.all([digestsOf(door), regionsOf(door, true)])
  const pools = await poolViews(door, { digests, regions })
  return answerJson(incoming, { ...gatewayView(door, digests), pools: pools.map((pool, at) => ({ ...pool, lookups: lookups[at] })) })
}

/** The same, and more, as it changes: for the dashboard. */
export async function watch(door: Door, live: Live, incoming: Incoming): Promise<Response> {
  await admitAdmin(door, incoming)
  refuseDraining(door)
  return live.open(incoming)
}

/** Ranks a request without sending or booking anything. The body is the request itself; `?endpoint=` says where it would go. */
export async function dryRun(door: Door, incoming: Incoming): Promise<Response> {
  await admitAdmin(door, incoming)
  refuseDraining(door)
  const endpoint = dryEndpoint(new URLSearchParams(incoming.query).get('endpoint'))
  const everyone = { tenant: 'admin', models: null, allowOverrides: true, edge: false, cacheSalt: null }
  const understood = await understand(door, endpoint, incoming, everyone)
  const admissions = new Admissions(understood, door)
  const admission = (route: PoolRoute) => admissions.of(route)
  const refusals: unknown[] = []
  for (const route of door.digests.order({ routes: understood.routes, scope: incoming.scope, admission })) {
    await admissions.hints(route)
    const answer = await rank(door, route, admission(route))
    if ('decision' in answer) return answerJson(incoming, { decision: toWire(answer.decision), refusals })
    refusals.push({ cluster: route.cluster.id, pool: route.pool.model, ...(toWire(answer.refusal) as object) })
  }
  return answerJson(incoming, { decision: null, refusals })
}

type Ranked = { readonly decision: Decision } | { readonly refusal: Refusal }

function rank(door: Door, route: PoolRoute, admission: ReturnType<Exchange['admission']>): Promise<Ranked> {
  const cluster = door.ports.cluster(route.cluster.id, route.pool.model)
  return cluster.rank({ ...admission, attempt: 0, avoid: [], configVersion: door.config.version })
}

function dryEndpoint(path: string | null): Endpoint {
  const endpoint = endpoints.find((known) => known.path === (path ?? '/v1/chat/completions'))
  if (endpoint !== undefined) return endpoint
  throw new Failure('bad_value', `endpoint is not one of: ${endpoints.map((known) => known.path).join(', ')}.`, { param: 'endpoint' })
}

/** Why a request went where it went. The id is in `x-firstlight-decision` of its answer. */
export async function decision(door: Door, incoming: Incoming, id: string | undefined): Promise<Response> {
  await admitAdmin(door, incoming)
  const found = await findDecision(door, idParam(id, 'decision'))
  if (found !== null) return answerJson(incoming, toWire(found))
  throw new Failure('not_found', 'No cluster remembers this decision. They keep the last ones only; the id is in x-firstlight-decision of the answer.')
}

async function findDecision(door: Door, id: string): Promise<Decision | null> {
  const answers = await Promise.allSettled(door.catalog.routes.map(({ cluster, pool }) => door.ports.cluster(cluster.id, pool.model).explain(id)))
  for (const answer of answers) if (answer.status === 'fulfilled' && answer.value !== null) return answer.value
  return null
}

/** What this gateway remembers of a request, by its own id or by the client's x-request-id, with its decision. */
export async function request(door: Door, incoming: Incoming, id: string | undefined): Promise<Response> {
  await admitAdmin(door, incoming)
  const wanted = idParam(id, 'request')
  const known = await recentOfAll(door, wanted)
  const why = await findDecision(door, known?.id ?? wanted)
  await flushAll(door)
  const report = door.config.ttft.enabled ? ((await door.ports.ttft?.find(wanted)) ?? null) : null
  if (known === null && why === null && report === null) {
    throw new Failure('not_found', 'This gateway does not remember such a request. It keeps the last ones only, in memory.')
  }
  const record = known?.record ?? report?.record ?? null
  return answerJson(incoming, {
    request: known === null ? null : toWire({ ...known, record: undefined }),
    stages_ms: record?.stages ?? null,
    record: record === null ? null : toWire(record),
    ttft_report: report === null ? null : reportView(report),
    decision: why === null ? null : toWire(why),
  })
}

/** Takes an engine out of, or back into, the choice. Running requests go on. */
export async function setDraining(door: Door, incoming: Incoming, id: string | undefined, draining: boolean): Promise<Response> {
  await admitAdmin(door, incoming)
  const engine = idParam(id, 'engine')
  const wanted = new URLSearchParams(incoming.query).get('cluster')
  const routes = door.catalog.routes.filter(({ cluster, targets }) => targets.has(engine) && (wanted === null || cluster.id === wanted))
  if (routes.length === 0) throw new Failure('not_found', `There is no engine '${engine}'${wanted === null ? '' : ` in a cluster '${wanted}'`}. GET /v1/firstlight/fleet lists them.`)
  const clusters = [...new Set(routes.map(({ cluster }) => cluster.id))]
  if (clusters.length > 1) {
    throw new Failure('bad_value', `The clusters ${clusters.join(', ')} all have an engine '${engine}'. Say which with ?cluster=.`, { param: 'cluster' })
  }
  await Promise.all(routes.map(({ cluster, pool }) => door.ports.cluster(cluster.id, pool.model).observe([{ kind: 'drain', engine, draining }])))
  door.ports.log.info(draining ? 'engine_drains' : 'engine_is_back', { cluster: clusters[0], engine })
  return answerJson(incoming, { cluster: clusters[0], engine, draining })
}
