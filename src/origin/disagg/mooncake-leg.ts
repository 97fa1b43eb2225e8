/** Split requests of vLLM's MooncakeConnector: both engines get the request at once, and the prefill engine pushes. */
import { rankNumberOf } from '../../core/contract/rank-id.ts'
import { MOONCAKE_QUERY, mooncakeDecode, mooncakeEngineIds, mooncakePrefill } from '../../engines/mooncake-transfer.ts'
import type { EngineTarget, OriginTarget } from '../../ports/engine-target.ts'
import type { Origin } from '../../ports/origin.ts'
import type { AttemptContext } from '../attempt-context.ts'
import { readRoute } from '../engine-route.ts'
import { jsonOf } from '../probes/engine-detection.ts'
import { serverOf } from '../rank-targets.ts'
import type { LegResult } from './final-leg.ts'

/** Age of the ids at which they are read again, ms. A server takes longer to start again, with new ids. */
const IDS_VALID_MS = 5_000

/** Time limit of the bootstrap server, ms. */
const QUERY_MS = 2_000

/** The two legs. Values of clients under the same name are replaced. */
export async function mooncakeLeg(attempt: AttemptContext, prefill: EngineTarget): Promise<LegResult> {
  const { exchange, ports, placed } = attempt
  const { engine, route } = placed
  const bootstrap = bootstrapOf(prefill, route.pool.split.mooncake)
  const engineId = await engineIdOf(attempt, prefill, bootstrap)
  if (engineId === null) return { failed: { engine: prefill, failure: 'connect', status: null } }
  const transferId = `xfer-${ports.newId()}`
  // A request without `splitting` is not split.
  const { set: one, remove } = exchange.protocol.splitting!.prefillEdit(exchange.source.json ?? {})
  const bodyWith = (params: string, set: Readonly<Record<string, string>>, removed: readonly string[]) =>
    exchange.source.body(route, { set: { ...set, kv_transfer_params: params }, remove: removed })!
  return {
    finalLeg: {
      target: engine,
      path: exchange.path,
      body: bodyWith(mooncakeDecode({ transferId, bootstrapUrl: bootstrap.url, engineId }), {}, []),
      notes: [],
      transform: null,
      holder: prefill,
      beside: { target: prefill, body: bodyWith(mooncakePrefill(transferId), one, remove) },
    },
  }
}

interface BootstrapPorts {
  readonly bootstrapPort: number
  readonly bootstrapPorts: Readonly<Record<string, number>>
}

/** Target of the bootstrap server beside a prefill engine. It gets no key of the engine. */
function bootstrapOf(prefill: EngineTarget, { bootstrapPort, bootstrapPorts }: BootstrapPorts): OriginTarget {
  const server = serverOf(prefill)
  const { hostname } = new URL(server.url)
  const port = bootstrapPorts[server.id] ?? bootstrapPort
  return { id: server.id, url: `http://${hostname}:${port}`, headers: [], binding: server.binding }
}

interface KnownIds {
  readonly ids: ReadonlyMap<number, string>
  readonly at: number
}

const byOrigin = new WeakMap<Origin, Map<string, KnownIds>>()

/** Id of the prefill engine. null: its bootstrap server does not report it. */
async function engineIdOf(
  { ports, exchange, placed }: AttemptContext,
  prefill: EngineTarget,
  bootstrap: OriginTarget,
): Promise<string | null> {
  const { origin, now, log } = ports
  const known = byOrigin.get(origin) ?? new Map<string, KnownIds>()
  byOrigin.set(origin, known)
  const cached = known.get(bootstrap.url)
  if (cached !== undefined && now() - cached.at < IDS_VALID_MS) return idIn(cached.ids, prefill)
  try {
    const { status, text } = await readRoute(origin, bootstrap, MOONCAKE_QUERY, { limitMs: QUERY_MS })
    const ids = mooncakeEngineIds(status === 200 ? jsonOf(text) : null)
    const id = idIn(ids, prefill)
    if (id === null) throw new Error(`${MOONCAKE_QUERY} answered ${status} without the engine`)
    known.set(bootstrap.url, { ids, at: now() })
    return id
  } catch (error) {
    log.warn('leg_failed', {
      id: exchange.id,
      cluster: placed.route.cluster.id,
      engine: prefill.id,
      leg: 'prefill',
      failure: 'connect',
      error,
    })
    return null
  }
}

/** Ranks are counted within the server, as in the header that chooses one. */
function idIn(ids: ReadonlyMap<number, string>, prefill: EngineTarget): string | null {
  const rank = rankNumberOf(prefill.id)
  if (prefill.kind !== 'rank' || rank === null) return ids.size === 1 ? [...ids.values()][0]! : null
  return ids.get(rank - (prefill.server.ranks?.first ?? 0)) ?? null
}
