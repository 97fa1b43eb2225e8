import type { Config } from '../../config.ts'
import { toPoolConfig } from '../../config/to-pool-config.ts'
import type { Ports } from '../../ports.ts'

/** Configures the pools now instead of with the next request. */
export async function configurePools({ version, clusters }: Config, ports: Pick<Ports, 'pool'>): Promise<void> {
  const all = clusters.flatMap((cluster) =>
    cluster.pools.map((pool) => ports.pool(cluster.id, pool.model).configure(version, toPoolConfig(cluster, pool))),
  )
  await Promise.all(all)
}
