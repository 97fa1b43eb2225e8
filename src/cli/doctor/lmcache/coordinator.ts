/** Checks of LMCache's coordinator: whether it knows instances and keys, and whether they match the engines. */
import * as z from 'zod/mini'
import { addressText } from '../../../config/address.ts'
import { didYouMean } from '../../../config/suggest.ts'
import { InstanceMap, type ListedInstance } from '../../../core/lmcache/instance-map.ts'
import { ask, type Endpoint, isAnswer, jsonOf, summaryOf } from '../ask.ts'
import { Findings, type Subject } from '../finding.ts'
import { expectedPlaces, type ExpectedLmcache } from './expected.ts'
import { checkOpen } from './open-access.ts'
import { examineLmcacheServer } from './server.ts'

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
  expected: ExpectedLmcache | null,
  limitMs: number,
): Promise<Subject[]> {
  const found = new Findings()
  let servers: readonly Subject[] = []
  const health = await ask(place, { path: '/healthz', limitMs })
  if (!isAnswer(health))
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
  expected: ExpectedLmcache | null,
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
    found.problem('instances', `/instances returns no list (${summaryOf(listed)})`, {
      costs: 'Matches cannot be assigned to engines.',
    })
  const keys = keyList.safeParse(jsonOf(keyed))
  if (keys.success) checkKeys(keys.data, expected, found)
  else found.note('directory', `/directory/keys returns no list (${summaryOf(keyed)})`)
  await checkLookup(place, expected, { found, limitMs })
  return examineServers(servers, { found, limitMs })
}

/** Maximum number of servers to examine. A coordinator may have hundreds. */
const MAX_SERVERS = 16

/** Only their engines and the coordinator need to reach the servers, so an unreachable server is no problem. */
async function examineServers(
  servers: z.infer<typeof instanceList>['instances'],
  { found, limitMs }: Examination,
): Promise<readonly Subject[]> {
  const places = servers
    .slice(0, MAX_SERVERS)
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

function checkInstances(instances: readonly ListedInstance[], expected: ExpectedLmcache | null, found: Findings): void {
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

function checkKeys({ total, keys }: z.infer<typeof keyList>, expected: ExpectedLmcache | null, found: Findings): void {
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
  expected: ExpectedLmcache | null,
  { found, limitMs }: Examination,
): Promise<void> {
  const body = {
    token_ids: Array.from({ length: LOOKUP_TOKENS }, (_, at) => at + 1),
    model_name: expected?.model ?? 'firstlight-doctor',
    world_size: 1,
    cache_salt: '',
  }
  const result = await ask(place, { method: 'POST', path: '/directory/lookup', body, limitMs })
  if (!lookupAnswer.safeParse(jsonOf(result)).success || !isAnswer(result)) {
    return found.problem('lookup', `POST /directory/lookup fails (${summaryOf(result)})`, {
      costs: 'No lookups are possible.',
      next: 'The gateway supports lmcache 0.5 and later.',
    })
  }
  const budgetMs = expected?.pool.lmcache?.budgetMs
  const took = `${result.tookMs.toFixed(0)} ms from here`
  if (budgetMs !== undefined && result.tookMs > budgetMs) {
    found.warn('lookup', `takes ${took}, the budget is ${budgetMs} ms`, {
      costs: 'Late lookups are not used.',
      next: 'Run the gateway closer to it, or raise lmcache.budget_ms. The first connection takes longer than others.',
    })
  } else found.ok('lookup', `answered in ${took}`)
}
