/**
 * Entry point on Workers: connects bindings, configuration, ports and gateway, and gives the cluster object its
 * probes.
 */
import { ClusterObject as ClusterBooks } from '../durable/cluster.ts'
import type { EngineSignal, PoolConfig } from './core/contract/contract.ts'
import { ConfigSource } from './platform/workers/config-source.ts'
import { IsolateGateway, type GatewayEnv } from './platform/workers/isolate-gateway.ts'
import { probePool } from './platform/workers/object-probe.ts'

export { LimitObject } from '../durable/limit.ts'
export { TtftObject } from '../durable/ttft.ts'

const source = new ConfigSource()
const live = new IsolateGateway(source)

/** State of one pool. The object has neither addresses nor secrets, so the entry point provides its probe. */
export class ClusterObject extends ClusterBooks<GatewayEnv> {
  protected override probe(pool: PoolConfig): Promise<readonly EngineSignal[]> {
    return probePool(pool, this.env, source)
  }
}

export default {
  fetch: (request, env, ctx) => live.fetch(request, env, ctx),
} satisfies ExportedHandler<GatewayEnv>
