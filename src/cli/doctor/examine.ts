/** Examines everything that the command line or a configuration names. */
import type { ClusterConfig, Config, EngineConfig, PoolSettings } from '../../config.ts'
import { toTargets } from '../../config/normalize.ts'
import { type Endpoint, ask } from './ask.ts'
import {
  type Expected,
  CAME_ROUND,
  checkClock,
  checkHealth,
  checkKey,
  checkModels,
  checkExposure,
} from './engine/checks-basic.ts'
import { cardOf, type EngineFacts } from './engine/facts.ts'
import { checkQuirks, titleOf } from './engine/kinds.ts'
import { type ReadOptions, readEngine } from './engine/read.ts'
import { Findings, type Subject } from './finding.ts'
import { examineCoordinator, examineController, examineLmcacheServer, type LmcacheExpected } from './lmcache.ts'
import { examinePool, type Member, kindOf, statusOf } from './pool.ts'
import { examineRegion } from './region.ts'
import {
  checkAnswers,
  checkEvents,
  checkKeepAlive,
  checkLimits,
  checkRequestIds,
  checkRole,
  checkSleepMode,
  checkTokenize,
  checkCache,
  checkMetrics,
} from './engine/checks-features.ts'

/* Examines one engine: from its address to its findings. */

export interface Examined {
  readonly subject: Subject
  /** null: the engine was unreachable. */
  readonly facts: EngineFacts | null
}

export async function examineEngine(
  name: string,
  place: Endpoint,
  expected: Expected | null,
  options: ReadOptions,
): Promise<Examined> {
  const facts = await readEngine(place, options)
  const found = new Findings()
  const subject = (is: string): Subject => ({ kind: 'engine', name, url: place.url, is, findings: found.list })
  if (!('health' in facts)) {
    found.add('unreachable', 'reachable', facts.message, {
      costs: 'The gateway sends no requests to it.',
      next: facts.next,
    })
    return { subject: subject(''), facts: null }
  }
  checkHealth(facts, found)
  // The request came back to this gateway. All further answers would be our own.
  if (facts.health.status === CAME_ROUND) return { subject: subject('Firstlight gateway'), facts: null }
  if (checkKey(facts, expected, found)) judge(facts, expected, found)
  checkClock(facts, found)
  checkKeepAlive(facts, found)
  checkExposure(facts, found)
  return { subject: subject(softwareOf(facts)), facts }
}

function softwareOf({ kind, version }: EngineFacts): string {
  if (kind !== null && kind !== 'vllm') return titleOf(kind)
  return version === null ? '' : `vLLM ${version}`
}

function judge(facts: EngineFacts, expected: Expected | null, found: Findings): void {
  if (!checkModels(facts, expected, found)) return
  if (checkMetrics(facts, found)) checkCache(facts, expected, found)
  checkAnswers(facts, expected, found)
  if (facts.kind !== null && facts.kind !== 'vllm') return checkQuirks(facts, found)
  checkRequestIds(facts, found)
  checkEvents(facts, found)
  checkTokenize(facts, expected, found)
  checkLimits(facts, expected, found)
  checkSleepMode(facts, found)
  checkRole(facts, expected, found)
}

/* A Firstlight gateway at an address where an engine was expected, or beside one. */

export async function examineGateway(name: string, place: Endpoint, limitMs: number): Promise<Subject> {
  const found = new Findings()
  const ready = await ask(place, { path: '/ready', limitMs })
  if (statusOf(ready) === 'ready') found.ok('ready', 'accepts requests')
  else
    found.problem('ready', 'does not accept requests', { next: 'GET /ready returns the reason; its log has details.' })
  found.note('behind_it', 'not checked', { next: 'Run firstlight doctor --config FILE to check its engines.' })
  return { kind: 'gateway', name, url: place.url, is: 'Firstlight gateway', findings: found.list }
}

export interface ExamineOptions extends Omit<ReadOptions, 'model'> {
  /** Folder that relative vocabulary names start at. */
  readonly folder: string
  progress(done: number, of: number): void
}

/** Number of servers examined at the same time. */
const AT_ONCE = 16

export async function examinePlaces(places: readonly Endpoint[], options: ExamineOptions): Promise<Subject[]> {
  const subjects = await inTurn(places, options, async (place): Promise<Subject | Subject[]> => {
    const name = new URL(place.url).host
    switch (await kindOf(place, options.limitMs)) {
      case 'engine':
        return (await examineEngine(name, place, null, { ...options, model: null })).subject
      case 'coordinator':
        return examineCoordinator(name, place, null, options.limitMs)
      case 'controller':
        return examineController(name, place, null, options.limitMs)
      case 'lmcache server':
        return examineLmcacheServer(name, place, options.limitMs)
      case 'gateway':
        return examineGateway(name, place, options.limitMs)
    }
  })
  return subjects.flat()
}

/** A completion at a provider costs money, and its server has no settings to check. */
const ownEngines = ({ engines }: PoolSettings): readonly EngineConfig[] =>
  engines.filter(({ kind }) => kind !== 'external')

export async function examineConfig(config: Config, options: ExamineOptions): Promise<Subject[]> {
  const prefix = (cluster: ClusterConfig): string => (config.clusters.length > 1 ? `${cluster.id}/` : '')
  const own = config.clusters.filter(({ gateway }) => gateway === null)
  const wanted = own.flatMap((cluster) =>
    cluster.pools.flatMap((pool) =>
      ownEngines(pool).map((engine) => ({ name: prefix(cluster) + engine.id, expected: { pool, engine } })),
    ),
  )
  const examined = await inTurn(wanted, options, ({ name, expected }) =>
    examineConfigured(name, expected, { ...options, via: config.via }),
  )
  const byPool = Map.groupBy(
    examined.map((one, at) => ({ ...one, ...wanted[at]! })),
    ({ expected }) => expected.pool,
  )
  const subjects: Subject[] = []
  for (const cluster of config.clusters) {
    if (cluster.gateway !== null) subjects.push(await examineRegional(cluster, { ...options, via: config.via }))
    else
      for (const pool of cluster.pools) {
        const engines = byPool.get(pool) ?? []
        const members = engines.flatMap(({ expected, facts }) =>
          facts === null ? [] : [{ id: expected.engine.id, facts }],
        )
        subjects.push(...engines.map(({ subject }) => subject))
        subjects.push(await examinePool(prefix(cluster) + pool.model, pool, members, options.folder))
        subjects.push(...(await examineLmcache(pool, members, options.limitMs)))
      }
  }
  return subjects
}

type ExamineConfigured = ExamineOptions & Pick<Config, 'via'>

async function examineRegional(cluster: ClusterConfig, { via, ...options }: ExamineConfigured): Promise<Subject> {
  const [pool] = cluster.pools
  const { binding, url } = pool!.engines[0]!
  if (binding === null) return examineRegion(cluster, placeOf(pool!, pool!.engines[0]!, via), options)
  return { kind: 'gateway', name: cluster.id, url, is: '', findings: boundOnly(binding) }
}

function boundOnly(binding: string): Subject['findings'] {
  const found = new Findings()
  found.note('reachable', `reached through the binding ${binding}, which exists only in the Worker`, {
    next: 'Check it by its address, from a host in its network.',
  })
  return found.list
}

/** Uses the same `via` as the gateway's requests, so that routing loops are found here too. */
function placeOf(pool: PoolSettings, engine: EngineConfig, via: string): Endpoint {
  const { url, headers } = toTargets({ ...pool, engines: [engine] }).get(engine.id)!
  const pairs = Array.from({ length: headers.length / 2 }, (_, at) => [headers[2 * at]!, headers[2 * at + 1]!])
  return { url, headers: { via, ...(Object.fromEntries(pairs) as Record<string, string>) } }
}

async function examineConfigured(
  name: string,
  expected: Expected,
  { via, ...options }: ExamineConfigured,
): Promise<Examined> {
  const { pool, engine } = expected
  if (engine.binding !== null)
    return {
      subject: { kind: 'engine', name, url: engine.url, is: '', findings: boundOnly(engine.binding) },
      facts: null,
    }
  const generate = options.generate && engine.role !== 'encode'
  return examineEngine(name, placeOf(pool, engine, via), expected, { ...options, generate, model: pool.model })
}

/** Examines the coordinator or controller of a pool. A registry is the gateway itself. */
async function examineLmcache(pool: PoolSettings, members: readonly Member[], limitMs: number): Promise<Subject[]> {
  const { lmcache } = pool
  const url = lmcache?.coordinator ?? lmcache?.controller ?? null
  if (lmcache === null || url === null || lmcache.binding !== null) return []
  const root = members.map(({ facts }) => cardOf(facts.models, pool.model)?.root ?? null).find((one) => one !== null)
  const expected: LmcacheExpected = { pool, model: lmcache.model ?? root ?? null }
  const place = { url, headers: lmcache.headers }
  const name = `of ${pool.model}`
  return lmcache.coordinator === null
    ? [await examineController(name, place, expected, limitMs)]
    : examineCoordinator(name, place, expected, limitMs)
}

/** Maps the list in order with bounded concurrency. */
async function inTurn<Item, Result>(
  items: readonly Item[],
  { progress }: ExamineOptions,
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  let [next, done] = [0, 0]
  progress(0, items.length)
  const worker = async (): Promise<void> => {
    while (next < items.length) {
      const at = next++
      results[at] = await work(items[at]!)
      progress(++done, items.length)
    }
  }
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, worker))
  return results
}
