/** `POST /v1/firstlight/pools/{id}/pause` and `/resume`, for programs that update the weights of a fleet. */
import { PAUSE_MODES } from '../engines/engine-type.ts'
import { Failure } from '../failure.ts'
import { type EnginePause, type PausePart, pausePool, resumePool } from '../origin/pause/pool-pause.ts'
import type { PoolRoute } from '../origin/pool-route.ts'
import { toSnakeCase } from '../snake-case.ts'
import { audit } from './audit.ts'
import { readShortJson } from './body/body.ts'
import { jsonResponse } from './json-response.ts'
import type { ModelRegistry } from './model-registry.ts'
import type { PausedEngineView, PauseView, ResumeView } from './openapi/engine-commands.ts'
import type { RequestContext } from './request-context.ts'
import { secondsParam } from './seconds-param.ts'
import type { WorkerGroup } from './worker-group.ts'

export interface PoolPauseParts extends Pick<PausePart, 'ports'> {
  readonly workerGroup: Pick<WorkerGroup, 'ask'> | null
  readonly models: Pick<ModelRegistry, 'routes'>
}

const OPTIONS_BYTES = 4_096

const DEFAULT_TIMEOUT_S = 300

/** Longest wait for running requests, seconds. */
const MAX_TIMEOUT_S = 3_600

const WEIGHTS = ['compare', 'same'] as const

/** Status if an engine did not do what it was told. The pool is paused all the same. */
const INCOMPLETE = 502

export async function pause(
  parts: PoolPauseParts,
  incoming: RequestContext,
  id: string | undefined,
): Promise<Response> {
  const options = await optionsOf(incoming, ['mode', 'timeout_s', 'cluster'])
  const routes = routesOf(parts, id, options.get('cluster') ?? null)
  const mode = oneOf(options, 'mode', PAUSE_MODES, null)
  const timeoutS = options.get('timeout_s') ?? String(DEFAULT_TIMEOUT_S)
  const waitMs = secondsParam('timeout_s', timeoutS, MAX_TIMEOUT_S) * 1000
  const engines = await onEach(parts, incoming, routes, (part) => pausePool(part, { mode, waitMs }))
  const isPaused = engines.every(({ state }) => state === 'paused' || state === 'held')
  audit(parts, incoming, { action: 'pause', model: id!, mode, complete: isPaused })
  const view: PauseView = { pool: id!, mode, paused: isPaused, engines: engineViews(engines) }
  return jsonResponse(incoming, view, isPaused ? 200 : INCOMPLETE)
}

export async function resume(
  parts: PoolPauseParts,
  incoming: RequestContext,
  id: string | undefined,
): Promise<Response> {
  const options = await optionsOf(incoming, ['weights', 'cluster'])
  const routes = routesOf(parts, id, options.get('cluster') ?? null)
  const isSame = oneOf(options, 'weights', WEIGHTS, 'compare') === 'same'
  const engines = await onEach(parts, incoming, routes, (part) => resumePool(part, { isSame }))
  const isResumed = engines.every(({ state }) => state === 'resumed')
  audit(parts, incoming, { action: 'resume', model: id!, complete: isResumed })
  const view: ResumeView = { pool: id!, resumed: isResumed, engines: engineViews(engines) }
  return jsonResponse(incoming, view, isResumed ? 200 : INCOMPLETE)
}

async function onEach(
  { ports, workerGroup }: PoolPauseParts,
  { scope }: RequestContext,
  routes: readonly PoolRoute[],
  work: (part: PausePart) => Promise<readonly EnginePause[]>,
): Promise<readonly EnginePause[]> {
  const fenceOthers: PausePart['fenceOthers'] = workerGroup && ((fenced) => workerGroup.ask({ about: 'fence', fenced }))
  return (await Promise.all(routes.map((route) => work({ ports, fenceOthers, scope, route })))).flat()
}

const engineViews = (engines: readonly EnginePause[]): readonly PausedEngineView[] => toSnakeCase(engines)

/** Options in the query, or in a JSON body. */
async function optionsOf(
  { query, request }: RequestContext,
  names: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const options = new Map(new URLSearchParams(query))
  for (const [name, value] of Object.entries(await readShortJson(request, OPTIONS_BYTES)))
    options.set(name, typeof value === 'string' ? value : JSON.stringify(value))
  for (const [name, value] of options)
    if (!names.includes(name)) throw invalid(name, value, `is not one of the options ${names.join(', ')}`)
  return options
}

function routesOf({ models }: PoolPauseParts, id: string | undefined, cluster: string | null): readonly PoolRoute[] {
  const named = models.routes.filter(({ pool }) => pool.model === id)
  const pools = [...new Set(models.routes.map(({ pool }) => pool.model))]
  if (named.length === 0) throw invalid('pool', id ?? '', `must be one of the pools ${pools.join(', ')}`)
  if (cluster === null) return named
  const clusters = named.map((one) => one.cluster.id)
  if (!clusters.includes(cluster))
    throw invalid('cluster', cluster, `must be one of the clusters of this pool: ${clusters.join(', ')}`)
  return named.filter((one) => one.cluster.id === cluster)
}

function oneOf<Value extends string>(
  options: ReadonlyMap<string, string>,
  name: string,
  allowed: readonly Value[],
  fallback: Value | null,
): Value {
  const given = options.get(name) ?? fallback
  const value = allowed.find((one) => one === given)
  if (value === undefined) throw invalid(name, given ?? '', `must be one of ${allowed.join(', ')}`)
  return value
}

const invalid = (param: string, value: string, rule: string): Failure =>
  new Failure('bad_value', `${param} is '${value.slice(0, 100)}'. It ${rule}.`, { param })
