/**
 * The Workers entry: bindings → configuration → ports → gateway, and the cluster's object with its way to the engines.
 */
import { ClusterObject as ClusterBooks } from '../durable/cluster.ts'
import type { EngineSignal, PoolConfig } from './core/contract/contract.ts'
import { ConfigSource } from './platform/workers/config-source.ts'
import { IsolateGateway, type GatewayEnv } from './platform/workers/isolate-gateway.ts'
import { probePool } from './platform/workers/object-probe.ts'

export { TtftObject } from '../durable/ttft.ts'

const source = new ConfigSource()
const live = new IsolateGateway(source)

/** The books of one pool. The object itself knows neither addresses nor secrets; the entry lends it a probe. */
export class ClusterObject extends ClusterBooks<GatewayEnv> {
  protected override probe(pool: PoolConfig): Promise<readonly EngineSignal[]> {
    return probePool(pool, this.env, source)
  }
}

export default {
  fetch: (request, env, ctx) => live.fetch(request, env, ctx),
} satisfies ExportedHandler<GatewayEnv>
