/** Two regions, each a gateway with one engine, and the edge in front of both. */
import { servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import type { EngineName } from '../engine-spec.ts'
import { alias, gatewayKey, startGateway, vocabularyOf } from '../gateway.ts'
import type { GatewayKind, GatewayOptions, RunningGateway } from '../gateway.ts'
import type { Lab } from '../row.ts'

export type RegionName = 'paris' | 'oregon'

export interface Regions {
  readonly edge: RunningGateway
  readonly gateways: Readonly<Record<RegionName, RunningGateway>>
  readonly engines: Readonly<Record<RegionName, RealEngine>>
  /** Starts it again at the same address. */
  startAgain(name: RegionName): Promise<void>
  stop(): Promise<void>
}

/** Key of the edge at a region; clients have another one. */
const edgeKey = 'edge-secret'

export interface RegionsSetting {
  readonly lab: Lab
  /** Runtime of the edge. */
  readonly kind: GatewayKind
  /** Regions and edge are Workers, with so many isolates each. Absent: regions run on Node, and a Worker has one. */
  readonly isolates?: number
  /** Engines of Paris and Oregon. */
  readonly pair: readonly [EngineName, EngineName]
}

/** Started for one row, which may kill them. */
export async function startRegions({ lab, kind, isolates, pair }: RegionsSetting): Promise<Regions> {
  const engines = { paris: await lab.engine(pair[0]), oregon: await lab.engine(pair[1]) }
  const started: RunningGateway[] = []
  const start = async (
    options: Pick<GatewayOptions, 'kind' | 'name' | 'engines' | 'document' | 'port'>,
  ): Promise<RunningGateway> => {
    const gateway = await startGateway({
      processes: lab.processes,
      note: lab.note,
      each: {},
      // Region and edge divide prompts alike.
      pool: isolates === undefined ? {} : { tokenizer: vocabularyOf.worker },
      ...(isolates === undefined ? {} : { isolates }),
      ...options,
    })
    started.push(gateway)
    return gateway
  }
  const stop = async () => void (await Promise.all(started.map((gateway) => gateway.stop())))
  const keys = [
    { name: 'edge', secret: edgeKey, edge: true, allow_overrides: true },
    { name: 'lab', secret: gatewayKey, allow_overrides: true },
  ]
  const region = (name: RegionName, port?: number) =>
    start({
      kind: isolates === undefined ? 'node' : 'worker',
      name: `region-${name}`,
      engines: [engines[name]],
      document: { keys },
      ...(port === undefined ? {} : { port }),
    })
  try {
    const gateways: Record<RegionName, RunningGateway> = {
      paris: await region('paris'),
      oregon: await region('oregon'),
    }
    // Equal blocks from the same vocabulary; an edge on Workers has it in its KV namespace.
    const models = [{ model: servedModel, aliases: [alias], block_tokens: 32, tokenizer: vocabularyOf[kind] }]
    const clusters = Object.entries(gateways).map(([id, { url }]) => ({
      id,
      region: `${id}-region`,
      gateway: { url, key: edgeKey, models },
    }))
    const edge = await start({ kind, name: `edge-${kind}`, engines: [], document: { clusters } })
    return {
      edge,
      gateways,
      engines,
      startAgain: async (name) => void (gateways[name] = await region(name, Number(new URL(gateways[name].url).port))),
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}
