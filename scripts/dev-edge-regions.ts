/** A front Worker and one Worker per region under workerd, with simulated engines behind the regions. */
import { demoModel } from '../packages/simulator/src/commands/demo-fleet.ts'
import type { RunningFleet } from '../packages/simulator/src/node/fleet-host.ts'
import { startWorkers } from './edge-workers.ts'
import { regionBinding } from './wrangler-config.ts'

const EDGE_KEY = 'demo-edge'

export interface DevRegionsOptions {
  readonly port: number
  /** Number of regions: at most the number of engines. */
  readonly regions: number
  readonly adminKey: string
}

/** Rejects if the Worker was not built, or if a region would have no engine. */
export async function startRegions(
  fleet: RunningFleet,
  { port, regions, adminKey }: DevRegionsOptions,
): Promise<{ readonly url: string; stop(): Promise<void> }> {
  if (!(regions >= 1 && regions <= fleet.urls.length))
    throw new Error(`--regions ${regions}: use 1 to ${fleet.urls.length}, the number of engines (--engines).`)
  const names = Array.from({ length: regions }, (_, at) => `region-${at + 1}`)
  const common = { version: Date.now(), admin: { secret: adminKey }, log: { level: 'warn' } }
  const front = {
    ...common,
    open: true,
    clusters: names.map((id) => ({
      id,
      gateway: {
        url: `http://${id}.internal`,
        key: EDGE_KEY,
        binding: regionBinding(id),
        models: [{ model: demoModel }],
      },
    })),
  }
  const regionDocument = (id: string, own: number) => ({
    ...common,
    keys: [{ name: 'edge', secret: EDGE_KEY, edge: true, allow_overrides: true }],
    clusters: [
      {
        id,
        pools: [
          {
            model: demoModel,
            engines: fleet.engines.flatMap(({ settings }, at) =>
              at % regions === own ? [{ id: settings.id, url: fleet.urls[at]! }] : [],
            ),
          },
        ],
      },
    ],
  })
  const { urls, stop } = await startWorkers([
    {
      name: 'firstlight',
      bindings: { FIRSTLIGHT_CONFIG: JSON.stringify(front) },
      services: Object.fromEntries(names.map((id) => [regionBinding(id), `firstlight-${id}`])),
      assets: true,
      port,
    },
    ...names.map((id, own) => ({
      name: `firstlight-${id}`,
      bindings: { FIRSTLIGHT_CONFIG: JSON.stringify(regionDocument(id, own)) },
    })),
  ])
  return { url: urls['firstlight']!, stop }
}
