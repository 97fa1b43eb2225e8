/** An edge in front of regions: gateways with simulated engines. */
import type { EngineOptions } from '../../packages/simulator/src/engine-options.ts'
import { startNodeGateway } from '../kit/node-gateway.ts'
import { adminKey, startWorld, type World } from './world.ts'

export interface RegionSetup {
  /** Name of the cluster at the edge. */
  readonly id: string
  readonly region: string
  readonly engines: readonly EngineOptions[]
  /** Whether the edge has the admin key of the region. */
  readonly isOpen: boolean
}

export interface EdgeWorld {
  /** Address of the edge, whose admin API is open. */
  readonly url: string
  /** By name of the cluster. */
  readonly regions: ReadonlyMap<string, World>
  close(): Promise<void>
}

const EDGE_KEY = 'key-of-the-edge'

export async function startEdgeWorld(setups: readonly RegionSetup[]): Promise<EdgeWorld> {
  const regions = new Map<string, World>()
  for (const { id, region, engines } of setups) {
    const keys = [{ name: 'edge', secret: EDGE_KEY, edge: true, allow_overrides: true }]
    regions.set(id, await startWorld([{ id: 'here', region, engines }], { locked: true, config: { keys } }))
  }
  const gateway = await startNodeGateway({
    clusters: setups.map(({ id, region, isOpen }) => ({
      id,
      region,
      gateway: {
        url: regions.get(id)!.url,
        key: EDGE_KEY,
        ...(isOpen ? { admin_key: adminKey } : {}),
        models: [{ model: 'sim' }],
      },
    })),
    limits: { drain_ms: 2000 },
  })
  return {
    url: gateway.url,
    regions,
    async close() {
      await gateway.stop(AbortSignal.abort())
      await Promise.all([...regions.values()].map((world) => world.close()))
    },
  }
}
