/** Checks of LMCache's coordinator: whether it knows instances and keys, and whether they match the engines. */
import * as z from 'zod/mini'
import { didYouMean } from '../../config/problem.ts'
import { addressText } from '../../config/fields.ts'
import { InstanceMap, type ListedInstance, hostOf, type EnginePlace } from '../../core/lmcache/registry.ts'
import { answered, ask, inShort, jsonOf, type Endpoint, type Question } from './ask.ts'
import { Findings, type Subject, type Remedy } from './finding.ts'
import { reachOf } from './reach.ts'
import type { PoolSettings } from '../../config.ts'

/* Checks of an LMCache server (`lmcache server`): open endpoints, and reports to the coordinator. */

/* Configuration of the cache beside a pool's engines. */

export interface LmcacheExpected {
  readonly pool: PoolSettings
  /** The model's name in LMCache's keys; null: neither configured nor reported by an engine. */
  readonly model: string | null
}

export const expectedPlaces = ({ pool }: LmcacheExpected): EnginePlace[] =>
  pool.engines.map(({ id, url, lmcacheInstance }) => ({ id, host: hostOf(url), instance: lmcacheInstance }))

/**
 * LMCache has no authentication, so a public address needs other protection. Sent without the configured headers, like
 * a stranger's request.
 */
export async function checkOpen({ url }: Endpoint, question: Question, found: Findings, remedy: Remedy): Promise<void> {
  if (reachOf(url) !== 'public') return
  const asked = await ask({ url, headers: {} }, question)
  if (answered(asked) && asked.status === 200) found.problem('open', 'no authentication, at a public address', remedy)
}

const config = z.object({
  mp: z.nullish(z.object({ run_script_api_enabled: z.nullish(z.boolean()), instance_id: z.nullish(z.string()) })),
  coordinator: z.nullish(z.object({ url: z.nullish(z.string()), event_reporting: z.nullish(z.boolean()) })),
})

export async function examineLmcacheServer(name: string, place: Endpoint, limitMs: number): Promise<Subject> {
  const found = new Findings()
  const [health, told] = await Promise.all([
    ask(place, { path: '/healthcheck', limitMs }),
    ask(place, { path: '/config', limitMs }),
  ])
  if (!answered(health)) found.add('unreachable', 'reachable', health.message, { next: health.next })
  else if (health.status !== 200)
    found.problem('health', `/healthcheck returns ${health.status}`, { next: 'See its log.' })
  else found.ok('health', `/healthcheck 200 in ${health.tookMs.toFixed(0)} ms`)
  const read = config.safeParse(jsonOf(told))
  if (read.success) judge(read.data, found)
  else if (answered(health)) found.note('config', `/config is not readable (${inShort(told)})`)
  if (answered(health))
    await checkOpen(place, { path: '/healthcheck', limitMs }, found, {
      costs: 'Anyone who reaches it can read and empty the cache.',
      next: 'Restrict it to its engines and its coordinator.',
    })
  return { kind: 'lmcache server', name, url: place.url, is: 'LMCache server', findings: found.list }
}

function judge({ mp, coordinator }: z.infer<typeof config>, found: Findings): void {
  if (mp?.run_script_api_enabled === true) {
    found.problem('run_script', 'POST /run_script runs any Python code', {
      costs: 'Anyone who reaches the port controls the host.',
      next: 'Start it without --run-script-api-enabled.',
    })
  } else found.ok('run_script', 'off')
  if (!coordinator?.url)
    found.note('coordinator', 'does not report to a coordinator', {
      costs: 'Its entries cannot be looked up.',
      next: '--coordinator-url URL --coordinator-event-reporting',
    })
  else if (coordinator.event_reporting !== true)
    found.warn('coordinator', `registers at ${withoutPath(coordinator.url)} but reports no events`, {
      costs: 'Every lookup is empty.',
      next: '--coordinator-event-reporting',
    })
  else found.ok('coordinator', `reports to ${withoutPath(coordinator.url)}`)
}

/** Removes the path, which contains the token if a gateway is the registry. */
const withoutPath = (url: string): string => (URL.canParse(url) ? new URL(url).origin : 'its coordinator')

/* LMCache's legacy controller has no health route without side effects, so a lookup is used. */

const controllerLookupAnswer = z.object({ layout_info: z.record(z.string(), z.unknown()) })
const instanceAnswer = z.object({ res: z.nullish(z.string()) })

export async function examineController(
  name: string,
  place: Endpoint,
  expected: LmcacheExpected | null,
  limitMs: number,
): Promise<Subject> {
  const found = new Findings()
  const lookup: Question = { method: 'POST', path: '/lookup', body: { tokens: [1, 2, 3] }, limitMs }
  const asked = await ask(place, lookup)
  if (!answered(asked))
    found.add('unreachable', 'reachable', asked.message, { costs: 'No lookups are possible.', next: asked.next })
  else if (!controllerLookupAnswer.safeParse(jsonOf(asked)).success)
    found.problem('lookup', `POST /lookup fails (${inShort(asked)})`, {
      costs: 'No lookups are possible.',
      next: 'Check that this is the HTTP port of lmcache_controller (9000).',
    })
  else {
    found.ok('lookup', `answered in ${asked.tookMs.toFixed(0)} ms`)
    if (expected !== null) await checkHosts(place, expected, { found, limitMs })
  }
  if (answered(asked))
    await checkOpen(place, lookup, found, {
      costs: 'Anyone who reaches it can move and clear the cache.',
      next: 'Restrict it to the gateway and the engines.',
    })
  return { kind: 'controller', name, url: place.url, is: 'LMCache controller', findings: found.list }
}

async function checkHosts(
  place: Endpoint,
  expected: LmcacheExpected,
  { found, limitMs }: { readonly found: Findings; readonly limitMs: number },
): Promise<void> {
  for (const { id, host, instance } of expectedPlaces(expected)) {
    if (instance !== null) continue
    const asked = await ask(place, {
      method: 'POST',
      path: '/query_instance',
      body: { event_id: 'firstlight-doctor', ip: host },
      limitMs,
    })
    const known = instanceAnswer.safeParse(jsonOf(asked)).data?.res
    if (known) found.ok('lmcache_engines', `${id} reads ${known}`)
    else
      found.warn('lmcache_instance', `no instance at ${host}, the host of engine ${id}`, {
        costs: 'Its cache is never used for routing.',
        next: `Set lmcache_instance of engine ${id}, or use the address that LMCache reports in the engine’s URL.`,
      })
  }
}

const instanceList = z.object({
  instances: z.array(z.object({ instance_id: z.string(), ip: z.string(), http_port: z.nullish(z.number()) })),
})
const keyList = z.object({
  total: z.nullish(z.number()),
  keys: z.array(z.object({ key: z.object({ model_name: z.string() }) })),
})
const lookupAnswer = z.object({ chunks: z.number() })

/** Examines the coordinator and those of its servers that are reachable from here. */
export async function examineCoordinator(
  name: string,
  place: Endpoint,
  expected: LmcacheExpected | null,
  limitMs: number,
): Promise<Subject[]> {
  const found = new Findings()
  let servers: readonly Subject[] = []
  const health = await ask(place, { path: '/healthz', limitMs })
  if (!answered(health))
    found.add('unreachable', 'reachable', health.message, { costs: 'No lookups are possible.', next: health.next })
  else {
    if (health.status === 200) found.ok('health', `/healthz 200 in ${health.tookMs.toFixed(0)} ms`)
    else
      found.problem('health', `/healthz returns ${health.status}`, {
        costs: 'No lookups are possible.',
        next: 'Check that this is the port of lmcache coordinator (9300).',
      })
    if (health.status === 200) servers = await examine(place, expected, { found, limitMs })
    await checkOpen(place, { path: '/healthz', limitMs }, found, {
      costs: 'Anyone who reaches it can list, pin and delete cache entries.',
      next: 'Restrict it to the gateway and the LMCache servers.',
    })
  }
  return [{ kind: 'coordinator', name, url: place.url, is: 'LMCache coordinator', findings: found.list }, ...servers]
}

interface Examination {
  readonly found: Findings
  readonly limitMs: number
}

async function examine(
  place: Endpoint,
  expected: LmcacheExpected | null,
  { found, limitMs }: Examination,
): Promise<readonly Subject[]> {
  const [listed, keyed] = await Promise.all([
    ask(place, { path: '/instances', limitMs }),
    ask(place, { path: '/directory/keys?limit=100', limitMs }),
  ])
  const instances = instanceList.safeParse(jsonOf(listed))
  const servers = instances.success ? instances.data.instances : []
  if (instances.success)
    checkInstances(
      servers.map(({ instance_id: id, ip }) => ({ id, host: ip })),
      expected,
      found,
    )
  else
    found.problem('instances', `/instances returns no list (${inShort(listed)})`, {
      costs: 'Matches cannot be assigned to engines.',
    })
  const keys = keyList.safeParse(jsonOf(keyed))
  if (keys.success) checkKeys(keys.data, expected, found)
  else found.note('directory', `/directory/keys returns no list (${inShort(keyed)})`)
  await checkLookup(place, expected, { found, limitMs })
  return examineServers(servers, { found, limitMs })
}

/** Maximum number of servers to examine. A coordinator may have hundreds. */
const MOST_SERVERS = 16

/** Only their engines and the coordinator need to reach the servers, so an unreachable server is no problem. */
async function examineServers(
  servers: z.infer<typeof instanceList>['instances'],
  { found, limitMs }: Examination,
): Promise<readonly Subject[]> {
  const places = servers
    .slice(0, MOST_SERVERS)
    .flatMap(({ instance_id: id, ip, http_port: port }) =>
      port === null || port === undefined ? [] : [{ id, url: `http://${addressText({ host: ip, port })}` }],
    )
    .filter(({ url }) => URL.canParse(url))
  const subjects = await Promise.all(
    places.map(({ id, url }) => examineLmcacheServer(id, { url, headers: {} }, limitMs)),
  )
  const reached = subjects.filter(({ findings }) => findings.every(({ mark }) => mark !== 'unreachable'))
  if (reached.length < servers.length)
    found.note('servers', `${servers.length - reached.length} of ${servers.length} not checked: unreachable from here`)
  return reached
}

function checkInstances(instances: readonly ListedInstance[], expected: LmcacheExpected | null, found: Findings): void {
  if (instances.length === 0) {
    return found.problem('instances', 'no LMCache server has registered', {
      costs: 'Every lookup is empty.',
      next: 'lmcache server … --coordinator-url URL --coordinator-event-reporting',
    })
  }
  found.ok('instances', instances.map(({ id, host }) => `${id} at ${host}`).join(', '))
  if (expected === null) return
  const places = expectedPlaces(expected)
  for (const { id, instance } of places) {
    if (instance === null || instances.some((one) => one.id === instance)) continue
    found.problem(
      'lmcache_instance',
      `engine ${id} names ${instance}, which has not registered${didYouMean(
        instance,
        instances.map((one) => one.id),
      )}`,
      { costs: 'Its cache is never used for routing.', next: 'Set lmcache_instance to the server’s --instance-id.' },
    )
  }
  const map = new InstanceMap(places)
  map.adopt(instances)
  for (const id of map.unresolved) {
    found.warn('lmcache_instance', `no instance, or more than one, at the host of engine ${id}`, {
      costs: 'Its cache is never used for routing.',
      next: `lmcache_instance: ${instances[0]!.id} (or another) in engine ${id}`,
    })
  }
  if (map.unresolved.length === 0)
    found.ok(
      'lmcache_engines',
      map
        .pairs()
        .map(({ engine, instance }) => `${engine} reads ${instance}`)
        .join(', '),
    )
}

function checkKeys({ total, keys }: z.infer<typeof keyList>, expected: LmcacheExpected | null, found: Findings): void {
  const models = [...new Set(keys.map(({ key }) => key.model_name))]
  if (models.length === 0) {
    return found.note('directory', 'empty', {
      costs: 'Lookups find nothing. This is expected only before the first request.',
      next: 'lmcache server … --coordinator-event-reporting',
    })
  }
  found.ok('directory', `${total ?? keys.length} keys, of ${models.join(', ')}`)
  const model = expected?.model ?? null
  if (model === null || models.includes(model)) return
  found.warn('lmcache_model', `no key of ${model} among the first ${keys.length}`, {
    costs: 'If none appears, every lookup is empty.',
    next:
      'LMCache uses vLLM’s --model (`root` of /v1/models) as the model name, not --served-model-name: see ' +
      'lmcache.model.',
  })
}

/** More than one chunk of default size, with token ids that no cache contains. */
const LOOKUP_TOKENS = 300

async function checkLookup(
  place: Endpoint,
  expected: LmcacheExpected | null,
  { found, limitMs }: Examination,
): Promise<void> {
  const body = {
    token_ids: Array.from({ length: LOOKUP_TOKENS }, (_, at) => at + 1),
    model_name: expected?.model ?? 'firstlight-doctor',
    world_size: 1,
    cache_salt: '',
  }
  const asked = await ask(place, { method: 'POST', path: '/directory/lookup', body, limitMs })
  if (!lookupAnswer.safeParse(jsonOf(asked)).success || !answered(asked)) {
    return found.problem('lookup', `POST /directory/lookup fails (${inShort(asked)})`, {
      costs: 'No lookups are possible.',
      next: 'The gateway supports lmcache 0.5 and later.',
    })
  }
  const budgetMs = expected?.pool.lmcache?.budgetMs
  const took = `${asked.tookMs.toFixed(0)} ms from here`
  if (budgetMs !== undefined && asked.tookMs > budgetMs) {
    found.warn('lookup', `takes ${took}, the budget is ${budgetMs} ms`, {
      costs: 'Late lookups are not used.',
      next:
        'Run the gateway closer to it, or raise lmcache.budget_ms. The first connection takes longer than later ' +
        'ones.',
    })
  } else found.ok('lookup', `answered in ${took}`)
}
