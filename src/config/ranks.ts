/** Data-parallel ranks in the configuration. */
import type { EngineConfig } from '../config.ts'
import type { RankSpec } from '../core/contract/pool-config.ts'
import { engineTypeOf } from '../engines/engine-registry.ts'
import { hostPort } from '../url.ts'
import type { Finding } from './finding.ts'
import { isProvider } from './is-provider.ts'
import { type Path, renderPath } from './path.ts'

/** null: the server is one engine. */
export function ranksOf({ dataParallel }: Pick<EngineConfig, 'dataParallel'>): RankSpec | null {
  if (dataParallel === 'off') return null
  if (dataParallel === 'auto') return { count: null, first: 0 }
  const { ranks, first } = typeof dataParallel === 'number' ? { ranks: dataParallel, first: 0 } : dataParallel
  return ranks === 1 ? null : { count: ranks, first }
}

/** Text for summaries. null: no ranks. */
export function ranksText(engine: Pick<EngineConfig, 'dataParallel'>): string | null {
  const ranks = ranksOf(engine)
  if (ranks === null) return null
  const { count, first } = ranks
  if (count === null) return 'ranks as its metrics show'
  return `ranks ${first} to ${first + count - 1}`
}

/** Header of the engine's type that chooses a rank. null: the type has none. */
function rankHeader({ type }: EngineConfig): string | null {
  return engineTypeOf(type === 'auto' ? 'unknown' : type).ranks?.header ?? null
}

/** Checks whether ranks fit the type of the engine and its other keys. */
export function checkRanks(findings: Finding[], engine: EngineConfig, at: Path): void {
  if (engine.dataParallel === 'off') return
  const add = (rule: string, ...path: readonly string[]) => void findings.push({ path: [...at, ...path], rule })
  if (isProvider(engine)) return add('is for your own engines: remove it with `kind: external`', 'data_parallel')
  const header = rankHeader(engine)
  if (header === null) return add(`must be off: ${engine.type} has no header that chooses a rank`, 'data_parallel')
  if (engine.dataParallel === 'auto' && engine.kvEvents !== null)
    add(
      'must be a number with `kv_events`, since each rank has a port. Without `kv_events` the bridge asks the engine',
      'data_parallel',
    )
  checkEventPorts(engine, add)
  const own = Object.keys(engine.headers).find((name) => name.toLowerCase() === header)
  if (own !== undefined) add('is set by `data_parallel` for each rank: remove the header', 'headers', own)
}

/** Each rank adds its number to both ports, and must not reach those of another one. */
function checkEventPorts(engine: EngineConfig, add: (rule: string, ...path: readonly string[]) => void): void {
  const { count = null } = ranksOf(engine) ?? {}
  if (count === null || engine.kvEvents?.replayEndpoint == null) return
  const [events, replays] = [engine.kvEvents.endpoint, engine.kvEvents.replayEndpoint].map(portOf)
  if (Math.abs(replays! - events!) >= count) return
  const rule = `must have a port that differs by at least ${count} from that of endpoint: each rank has its own`
  add(rule, 'kv_events', 'replay_endpoint')
}

const portOf = (endpoint: string): number => Number(/:(\d+)$/.exec(endpoint)?.[1])

/** An engine with its path in the document. */
export type EngineWithPath = readonly [engine: EngineConfig, path: Path]

/** Checks that no engine is a rank of a server whose ranks are engines already. */
export function checkOverlaps(findings: Finding[], engines: readonly EngineWithPath[]): void {
  if (engines.every(([{ dataParallel }]) => dataParallel === 'off')) return
  const servers = new Map<string, EngineWithPath[]>()
  for (const one of engines) {
    const server = serverKey(one[0])
    servers.set(server, [...(servers.get(server) ?? []), one])
  }
  for (const [first, ...others] of servers.values()) {
    const withRanks = [first!, ...others].find(([{ dataParallel }]) => dataParallel !== 'off')
    if (withRanks === undefined) continue
    for (const [engine, path] of [first!, ...others]) {
      // Equal servers are duplicates, which another rule reports.
      if (engine === withRanks[0] || hostPort(engine, engine.binding) === hostPort(withRanks[0], withRanks[0].binding))
        continue
      findings.push({
        path: [...path, 'url'],
        rule:
          `is the server of ${renderPath(withRanks[1])}, whose \`data_parallel\` makes an engine of each rank: the ` +
          'ranks overlap. Remove one of the two',
      })
    }
  }
}

/** As `hostPort`, without the header that chooses a rank. */
function serverKey(engine: EngineConfig): string {
  const name = rankHeader(engine) ?? ''
  const headers = Object.entries(engine.headers).filter(([header]) => header.toLowerCase() !== name)
  return hostPort({ url: engine.url, headers: Object.fromEntries(headers) }, engine.binding)
}
