/** The product's outside, made of one Worker's bindings. */
import type { ClusterObject } from '../../../durable/cluster.ts'
import type { TtftObject } from '../../../durable/ttft.ts'
import type { Config } from '../../config.ts'
import { toPoolConfig } from '../../config/pool.ts'
import type { Log, Ports } from '../../ports.ts'
import { durableClusters, type PoolPlace } from './clusters.ts'
import { workersOrigin } from './origin.ts'
import { durableTtft } from './ttft.ts'

/** A collector that answers later than this is out of reach. */
const POST_MS = 10_000

export interface PortsEnv {
  readonly CLUSTER: DurableObjectNamespace<ClusterObject>
  /** Absent on deployments older than the reports. */
  readonly TTFT?: DurableObjectNamespace<TtftObject>
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
    ...(config.ttft.enabled ? ttftOf(config, env, log) : {}),
    async post(url, headers, body) {
      const answer = await fetch(url, { method: 'POST', headers: { ...headers }, body, signal: AbortSignal.timeout(POST_MS) })
      await answer.body?.cancel()
      return answer.status
    },
  }
}

function ttftOf(config: Config, { TTFT }: PortsEnv, log: Log): Pick<Ports, 'ttft'> {
  if (TTFT !== undefined) return { ttft: durableTtft(TTFT, config.ttft) }
  log.error('ttft_unbound', { missing: 'TTFT', see: 'the durable object TtftObject in wrangler.toml' })
  return {}
}

function placesOf(config: Config): ReadonlyMap<string, PoolPlace> {
  const places = new Map<string, PoolPlace>()
  for (const cluster of config.clusters) {
    const { generation, locationHint } = cluster
    for (const pool of cluster.pools) {
      places.set(nameOf(cluster.id, pool.model), { version: config.version, pool: toPoolConfig(cluster, pool), isRegional: cluster.gateway !== undefined, generation, locationHint })
    }
  }
  return places
}

const nameOf = (clusterId: string, pool: string): string => JSON.stringify([clusterId, pool])
