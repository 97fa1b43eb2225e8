/** The product's outside, made of one Worker's bindings. */
import type { ClusterObject } from '../../../durable/cluster.ts'
import type { Config } from '../../config.ts'
import { toPoolConfig } from '../../config/pool.ts'
import type { Log, Ports } from '../../ports.ts'
import { durableClusters, type PoolPlace } from './clusters.ts'
import { workersOrigin } from './origin.ts'

export interface PortsEnv {
  readonly CLUSTER: DurableObjectNamespace<ClusterObject>
}

/** Nothing in it belongs to one request, so it serves the whole isolate. */
export function workersPorts(config: Config, env: PortsEnv, log: Log): Ports {
  const places = placesOf(config)
  return {
    cluster: durableClusters(env.CLUSTER, { source: (clusterId, pool) => places.get(nameOf(clusterId, pool)) ?? null }),
    origin: workersOrigin({ bindings: { ...env } }),
    now: () => Date.now(),
    random: () => Math.random(),
    newId: () => crypto.randomUUID(),
    log,
  }
}

function placesOf(config: Config): ReadonlyMap<string, PoolPlace> {
  const places = new Map<string, PoolPlace>()
  for (const cluster of config.clusters) {
    const { generation, locationHint } = cluster
    for (const pool of cluster.pools) {
      places.set(nameOf(cluster.id, pool.model), { version: config.version, pool: toPoolConfig(cluster, pool), generation, locationHint })
    }
  }
  return places
}

const nameOf = (clusterId: string, pool: string): string => JSON.stringify([clusterId, pool])
