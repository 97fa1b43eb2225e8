/** Examines everything that the command line or a configuration names. */
import type { ClusterConfig, Config, EngineConfig, PoolSettings } from '../../config.ts'
import { isProvider } from '../../config/is-provider.ts'
import { toTargets } from '../../config/engine-targets.ts'
import { type LmcacheService, lmcacheServices } from '../../config/lmcache-services.ts'
import type { Endpoint } from './ask.ts'
import type { ExpectedEngine } from './engine/expected.ts'
import { type EngineExamination, examineEngine } from './engine/examine.ts'
import { cardOf, type ReachableEngine } from './engine/facts.ts'
import type { ReadOptions } from './engine/read.ts'
import { Findings, type Subject } from './finding.ts'
import { examineGateway } from './gateway.ts'
import { examineCoordinator } from './lmcache/coordinator.ts'
import { examineController } from './lmcache/controller.ts'
import type { ExpectedLmcache } from './lmcache/expected.ts'
import { examineLmcacheServer } from './lmcache/server.ts'
import { examinePool } from './pool.ts'
import { examineRegion } from './region.ts'
import { kindOf } from './server-kind.ts'
import { type ReportSteps, Steps } from './steps.ts'

export interface ExamineOptions extends Omit<ReadOptions, 'model'> {
  /** Folder that relative vocabulary names start at. */
  readonly folder: string
  readonly progress: ReportSteps
}

/** Number of servers examined at the same time. */
const AT_ONCE = 16

export async function examinePlaces(places: readonly Endpoint[], options: ExamineOptions): Promise<Subject[]> {
  const steps = new Steps(places.length, options.progress)
  const subjects = await mapConcurrently(places, (place) => {
    const name = new URL(place.url).host
    return steps.run(name, () => examinePlace(name, place, options))
  })
  return subjects.flat()
}

const LMCACHE_EXAMINERS: Readonly<Record<LmcacheService, typeof examineCoordinator>> = {
  coordinator: examineCoordinator,
  controller: examineController,
}

async function examinePlace(name: string, place: Endpoint, options: ExamineOptions): Promise<Subject | Subject[]> {
  const kind = await kindOf(place, options.limitMs)
  switch (kind) {
    case 'engine':
      return (await examineEngine(name, place, null, { ...options, model: null })).subject
    case 'coordinator':
    case 'controller':
      return LMCACHE_EXAMINERS[kind](name, place, null, options.limitMs)
    case 'lmcache server':
      return examineLmcacheServer(name, place, options.limitMs)
    case 'gateway':
      return examineGateway(name, place, options.limitMs)
  }
}

/** A completion at a provider costs money, and its server has no settings to check. */
const ownEngines = ({ engines }: PoolSettings): readonly EngineConfig[] =>
  engines.filter((engine) => !isProvider(engine))

export async function examineConfig(config: Config, options: ExamineOptions): Promise<Subject[]> {
  const prefix = (cluster: ClusterConfig): string => (config.clusters.length > 1 ? `${cluster.id}/` : '')
  const own = config.clusters.filter(({ gateway }) => gateway === null)
  const wanted = own.flatMap((cluster) =>
    cluster.pools.flatMap((pool) =>
      ownEngines(pool).map((engine) => ({ name: prefix(cluster) + engine.id, expected: { pool, engine } })),
    ),
  )
  const poolCount = own.reduce((sum, { pools }) => sum + pools.length, 0)
  const steps = new Steps(wanted.length + poolCount + config.clusters.length - own.length, options.progress)
  const examined = await mapConcurrently(wanted, ({ name, expected }) =>
    steps.run(name, () => examineConfigured(name, expected, { ...options, via: config.via })),
  )
  const byPool = Map.groupBy(
    examined.map((one, at) => ({ ...one, ...wanted[at]! })),
    ({ expected }) => expected.pool,
  )
  const subjects: Subject[] = []
  for (const cluster of config.clusters) {
    if (cluster.gateway !== null) {
      const examine = () => examineRegional(cluster, { ...options, via: config.via })
      subjects.push(await steps.run(cluster.id, examine))
      continue
    }
    for (const pool of cluster.pools) {
      const engines = byPool.get(pool) ?? []
      const members = engines.flatMap(({ expected, facts }) =>
        facts === null ? [] : [{ id: expected.engine.id, facts }],
      )
      const name = prefix(cluster) + pool.model
      subjects.push(...engines.map(({ subject }) => subject))
      subjects.push(
        ...(await steps.run(`pool ${name}`, async () => [
          await examinePool(name, pool, members, options.folder),
          ...(await examineLmcache(pool, members, options.limitMs)),
        ])),
      )
    }
  }
  return subjects
}

type ConfigExamineOptions = ExamineOptions & Pick<Config, 'via'>

async function examineRegional(cluster: ClusterConfig, { via, ...options }: ConfigExamineOptions): Promise<Subject> {
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
  expected: ExpectedEngine,
  { via, ...options }: ConfigExamineOptions,
): Promise<EngineExamination> {
  const { pool, engine } = expected
  if (engine.binding !== null)
    return {
      subject: { kind: 'engine', name, url: engine.url, is: '', findings: boundOnly(engine.binding) },
      facts: null,
    }
  const generate = options.generate && engine.role !== 'encode'
  return examineEngine(name, placeOf(pool, engine, via), expected, { ...options, generate, model: pool.model })
}

/** Examines the directory service of a pool. A registry is the gateway itself. */
async function examineLmcache(
  pool: PoolSettings,
  members: readonly ReachableEngine[],
  limitMs: number,
): Promise<Subject[]> {
  const { lmcache } = pool
  const [service] = lmcache === null ? [] : lmcacheServices(lmcache)
  if (lmcache === null || service === undefined || lmcache.binding !== null) return []
  const root = members.map(({ facts }) => cardOf(facts.models, pool.model)?.root ?? null).find((one) => one !== null)
  const expected: ExpectedLmcache = { pool, model: lmcache.model ?? root ?? null }
  const place = { url: service.url, headers: lmcache.headers }
  return LMCACHE_EXAMINERS[service.kind](`of ${pool.model}`, place, expected, limitMs)
}

/** Maps the list in order with bounded concurrency. */
async function mapConcurrently<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < items.length) {
      const at = next++
      results[at] = await work(items[at]!)
    }
  }
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, worker))
  return results
}
