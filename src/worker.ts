/**
 * Entry point on Workers: connects bindings, configuration, ports and gateway, and gives the cluster object its
 * probes.
 */
import { ClusterObject as BaseClusterObject } from '../durable/cluster-object.ts'
import { EdgeObject as BaseEdgeObject } from '../durable/edge-object.ts'
import type { EngineSignal } from './core/contract/engine-signal.ts'
import type { PoolConfig } from './core/contract/pool-config.ts'
import type { TrialOrder } from './core/pool/condition/engine-watch.ts'
import type { PoolEvent } from './core/pool/pool-events.ts'
import type { RouteGroup } from './gateway.ts'
import { ConfigSource } from './platform/workers/config-source.ts'
import type { GatewayEnv } from './platform/workers/gateway-builder.ts'
import { IsolateGateway } from './platform/workers/isolate-gateway.ts'
import { ObjectAlerts } from './platform/workers/object-alerts.ts'
import { probePool, tryPoolEngine } from './platform/workers/probe-pool.ts'
import { ReaderGateway } from './platform/workers/reader-gateway.ts'
import type { TrialVerdict } from './ports/probe.ts'

export { LimitObject } from '../durable/limit-object.ts'
export { TtftObject } from '../durable/ttft-object.ts'

const source = new ConfigSource()
const gateway = new IsolateGateway(source)
const reader = new ReaderGateway(source)

/** State of one pool. The object has neither addresses nor secrets, so the entry point provides its probe. */
export class ClusterObject extends BaseClusterObject<GatewayEnv> {
  protected override probe(pool: PoolConfig): Promise<readonly EngineSignal[]> {
    return probePool(pool, this.env, source)
  }

  protected override tryEngine(pool: PoolConfig, order: TrialOrder): Promise<TrialVerdict | null> {
    return tryPoolEngine({ pool, order }, this.env, source)
  }

  readonly #alerts = new ObjectAlerts(source)

  protected override alert(pool: PoolConfig, events: readonly PoolEvent[]): Promise<void> {
    return this.#alerts.raise(pool, events, this.env)
  }
}

/** State that the isolates share. The object has no configuration, so the entry point takes its views. */
export class EdgeObject extends BaseEdgeObject<GatewayEnv> {
  protected override view(): Promise<unknown> {
    return reader.view(this.env)
  }
}

interface FirstlightWorker {
  fetch(request: Request, env: GatewayEnv, ctx: ExecutionContext): Promise<Response>
  /** Routes of these groups only, for a Worker that puts its own middleware in front of each group. */
  only(...groups: readonly RouteGroup[]): Pick<FirstlightWorker, 'fetch'>
}

const worker: FirstlightWorker = {
  fetch: (request, env, ctx) => gateway.fetch(request, env, ctx),
  only: (...groups) => ({ fetch: gateway.only(groups) }),
}

export default worker
