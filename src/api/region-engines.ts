/** Engines of other gateways' regions, for operators of this one: seen and drained through the regions' admin API. */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { Failure } from '../failure.ts'
import type { PoolRoute } from '../origin/pool-route.ts'
import { callRegion, type RegionAnswer } from '../origin/regions/region-admin.ts'
import type { Ports } from '../ports.ts'
import { withTimeout } from '../timeout.ts'
import type { ModelRegistry } from './model-registry.ts'
import type { RequestContext } from './request-context.ts'

interface RegionEngineParts {
  readonly ports: Pick<Ports, 'origin' | 'log'>
  readonly models: Pick<ModelRegistry, 'routes'>
}

/** Time limit of a region in a view, ms. */
const VIEW_MS = 2_000

/** Whether this gateway has the admin key of the cluster's gateway. */
const isOpen = ({ cluster }: PoolRoute): boolean => cluster.gateway !== null && cluster.gateway.adminKey !== null

/**
 * Engines of each pool's region, in the order of the routes. undefined: the pool is in no region whose admin key is
 * configured. null: the region did not answer.
 */
export async function regionEngines(
  { ports, models }: RegionEngineParts,
  { requestId }: RequestContext,
): Promise<readonly (readonly JsonObject[] | null | undefined)[]> {
  const answers = new Map<string, Promise<RegionAnswer | null>>()
  const call = (route: PoolRoute): Promise<RegionAnswer | null> =>
    viewOf(ports, route, callRegion(ports.origin, route, { method: 'GET', path: '/v1/firstlight/fleet', requestId }))
  return Promise.all(
    models.routes.map(async (route) => {
      if (!isOpen(route)) return undefined
      const { id } = route.cluster
      const answering = answers.get(id) ?? call(route)
      answers.set(id, answering)
      const answer = await answering
      return answer === null ? null : enginesIn(answer.json, route.pool.model)
    }),
  )
}

/** null: the region did not answer in time, or refused. */
async function viewOf(
  { log }: RegionEngineParts['ports'],
  { cluster }: PoolRoute,
  answering: Promise<RegionAnswer>,
): Promise<RegionAnswer | null> {
  const answer = await withTimeout(VIEW_MS, answering)
  if (answer?.value.status === 200) return answer.value
  log.warn('region_admin_failed', { cluster: cluster.id, status: answer?.value.status ?? null })
  return null
}

/** Engines of a model in the fleet view of a region, each with its cluster there. */
function enginesIn({ pools }: RegionAnswer['json'], model: string): readonly JsonObject[] {
  if (!Array.isArray(pools)) return []
  return pools.flatMap((pool) => {
    if (!isJsonObject(pool) || pool['model'] !== model || !Array.isArray(pool['engines'])) return []
    return pool['engines'].filter(isJsonObject).map((engine) => ({ cluster: pool['cluster'], ...engine }))
  })
}

/** A drain or undrain of one engine of a region. */
interface RegionDrain {
  readonly engine: string
  readonly draining: boolean
  /** Query of the operator's request. */
  readonly query: URLSearchParams
}

/**
 * Drains or undrains an engine of a region, whose gateway stores that. null: the cluster is behind no gateway whose
 * admin key is configured. Throws a Failure if the region refuses.
 */
export async function drainInRegion(
  { ports, models }: RegionEngineParts,
  { requestId }: RequestContext,
  { engine, draining, query }: RegionDrain,
): Promise<Readonly<Record<string, unknown>> | null> {
  const route = models.routes.find((one) => one.cluster.id === query.get('cluster') && isOpen(one))
  if (route === undefined) return null
  const { id } = route.cluster
  const path = `/v1/firstlight/engines/${engine}/${draining ? 'drain' : 'undrain'}${queryFor(query)}`
  let answer: RegionAnswer
  try {
    answer = await callRegion(ports.origin, route, { method: 'POST', path, requestId })
  } catch (error) {
    ports.log.warn('region_admin_failed', { cluster: id, error })
    throw new Failure('state_unreachable', `The gateway of cluster '${id}' cannot be reached. Try again shortly.`)
  }
  if (answer.status !== 200) throw refusedBy(id, engine, answer)
  const { cluster: regionCluster, ...rest } = answer.json
  return { ...rest, cluster: id, region_cluster: regionCluster, engine, draining }
}

/** The region's own query. */
function queryFor(query: URLSearchParams): string {
  const sent = new URLSearchParams()
  const [cluster, deadlineS] = [query.get('region_cluster'), query.get('deadline_s')]
  if (cluster !== null) sent.set('cluster', cluster)
  if (deadlineS !== null) sent.set('deadline_s', deadlineS)
  return sent.size === 0 ? '' : `?${sent.toString()}`
}

function refusedBy(id: string, engine: string, { status, json }: RegionAnswer): Failure {
  if (status === 404)
    return new Failure('not_found', `There is no engine '${engine}' in the region of cluster '${id}'.`)
  if (status === 400)
    return new Failure(
      'bad_value',
      `The region of cluster '${id}' has several engines '${engine}', or rejects the query. Add ` +
        '&region_cluster=NAME, a cluster there.',
      { param: 'region_cluster' },
    )
  if (status === 401 || status === 403)
    return new Failure('not_configured', `The gateway of cluster '${id}' rejects \`gateway.admin_key\`.`)
  return new Failure('state_unreachable', `The gateway of cluster '${id}' answered ${status}. Try again shortly.`, {
    cause: json,
  })
}

/**
 * What regions know of a request: its record, report and decision there. null: no region has it.
 * @param cluster the request was sent to this one; null: unknown, so all regions are asked
 */
export async function regionRequest(
  { ports, models }: RegionEngineParts,
  { requestId }: RequestContext,
  { id, cluster }: { readonly id: string; readonly cluster: string | null },
): Promise<JsonObject | null> {
  const routes = new Map(
    models.routes
      .filter((route) => isOpen(route) && (cluster === null || route.cluster.id === cluster))
      .map((route) => [route.cluster.id, route]),
  )
  const path = `/v1/firstlight/requests/${id}`
  const answers = await Promise.all(
    [...routes.values()].map(async (route) => {
      const answer = await withTimeout(VIEW_MS, callRegion(ports.origin, route, { method: 'GET', path, requestId }))
      return answer?.value.status === 200 ? { cluster: route.cluster.id, ...answer.value.json } : null
    }),
  )
  return answers.find((answer) => answer !== null) ?? null
}
