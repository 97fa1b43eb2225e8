/** Targets of data-parallel ranks: that of their server, with the header that chooses the rank. */
import { MAX_RANKS, rankNumberOf, serverIdOf } from '../core/contract/rank-id.ts'
import { engineTypeOf } from '../engines/engine-registry.ts'
import type { EngineType } from '../engines/engine-type.ts'
import type { EngineTarget, ServerTarget } from '../ports/engine-target.ts'

type Targets = ReadonlyMap<string, EngineTarget>

interface RankTargets {
  /** The server counts ranks from the first of all nodes. */
  countsGlobally: boolean
  /** By number of the rank, so that a rank is always the same object. */
  readonly targets: Map<number, EngineTarget>
}

const byServer = new WeakMap<ServerTarget, RankTargets>()

/** Target of an engine, which may be a rank. undefined: the configuration has none. */
export function targetOf(targets: Targets, engine: string): EngineTarget | undefined {
  return targets.get(engine) ?? rankTarget(targets, engine)
}

function rankTarget(targets: Targets, engine: string): EngineTarget | undefined {
  const rank = rankNumberOf(engine)
  const server = rank === null ? undefined : targets.get(serverIdOf(engine))
  if (rank === null || server?.kind !== 'server' || server.ranks === undefined) return undefined
  const { ranks, ...shared } = server
  const isBeyond = rank < ranks.first || rank >= ranks.first + (ranks.count ?? MAX_RANKS)
  if (isBeyond) return undefined
  const known = ranksOf(server)
  const target = known.targets.get(rank) ?? {
    ...shared,
    kind: 'rank',
    id: engine,
    server,
    headers: [...server.headers, headerOf(server), String(known.countsGlobally ? rank : rank - ranks.first)],
  }
  known.targets.set(rank, target)
  return target
}

function ranksOf(server: ServerTarget): RankTargets {
  const known = byServer.get(server) ?? { countsGlobally: false, targets: new Map() }
  byServer.set(server, known)
  return known
}

/** Before a probe the type is unknown. All types with ranks have the same header. */
const headerOf = ({ type = 'unknown' }: ServerTarget): string =>
  (engineTypeOf(type).ranks ?? engineTypeOf('unknown').ranks!).header

/** Target with the address and the health of the engine. */
export const serverOf = (target: EngineTarget): EngineTarget => (target.kind === 'rank' ? target.server : target)

/** Whether the engine refused the rank that the gateway chose, so that the answer is not for the client. */
export function refusesRank(
  target: EngineTarget,
  { ranks }: EngineType,
  { status, body }: { readonly status: number; readonly body: string },
): boolean {
  if (target.kind !== 'rank' || ranks === null || status !== 400) return false
  if (ranks.connected?.test(body) === true) {
    byServer.set(target.server, { countsGlobally: true, targets: new Map() })
    return true
  }
  return ranks.outOfRange.test(body)
}
