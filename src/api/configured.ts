import type { Config } from '../config.ts'
import { toPoolConfig } from '../config/pool.ts'
import type { Refusal } from '../core/cluster/contract.ts'
import type { Cluster, Ports } from '../ports.ts'

/**
 * Ports whose cluster objects get their configuration when they ask for it: a fresh or evicted object, or one that
 * holds an older version, refuses with `unconfigured`; it is told and asked again, once.
 */
export function configuredPorts(ports: Ports, config: Config): Ports {
  const pools = new Map(config.clusters.flatMap((cluster) => cluster.pools.map((pool) => [key(cluster.id, pool.model), toPoolConfig(cluster, pool)] as const)))
  const known = new Map<string, Cluster>()
  const cluster = (clusterId: string, pool: string): Cluster => {
    const name = key(clusterId, pool)
    const before = known.get(name)
    if (before !== undefined) return before
    const settings = pools.get(name)
    const object = ports.cluster(clusterId, pool)
    const told = settings === undefined ? object : telling(object, () => object.configure(config.version, settings))
    known.set(name, told)
    return told
  }
  return { ...ports, cluster, origin: ports.origin, log: ports.log, now: () => ports.now(), random: () => ports.random(), newId: () => ports.newId() }
}

const key = (cluster: string, pool: string): string => JSON.stringify([cluster, pool])

function telling(object: Cluster, configure: () => Promise<void>): Cluster {
  const again = async <Answer extends object>(ask: () => Promise<Answer>): Promise<Answer> => {
    const answer = await ask()
    if (!('refusal' in answer) || (answer.refusal as Refusal).reason !== 'unconfigured') return answer
    await configure()
    return ask()
  }
  return {
    configure: (version, pool) => object.configure(version, pool),
    admit: (admission) => again(() => object.admit(admission)),
    resume: (booking) => object.resume(booking),
    rank: (admission) => again(() => object.rank(admission)),
    observe: (signals) => object.observe(signals),
    digest: () => object.digest(),
    explain: (id) => object.explain(id),
  }
}
