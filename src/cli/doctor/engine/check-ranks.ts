import { ranksOf } from '../../../config/ranks.ts'
import type { Findings } from '../finding.ts'
import type { ExpectedEngine } from './expected.ts'
import type { EngineFacts } from './facts.ts'

/** Checks that no two ranks use one port, with which the later one does not start. */
export function checkEventPorts({ events }: EngineFacts, found: Findings): void {
  const sockets = (events ?? []).flatMap(({ rank, endpoint, replayEndpoint }) =>
    [
      { what: `events of rank ${rank}`, endpoint },
      { what: `replays of rank ${rank}`, endpoint: replayEndpoint },
      // The system chooses a free port for 0.
    ].filter(({ endpoint: address }) => address?.startsWith('tcp:') === true && portOf(address) !== '0'),
  )
  for (const [at, { what, endpoint }] of sockets.entries()) {
    const other = sockets.slice(0, at).find((one) => portOf(one.endpoint!) === portOf(endpoint!))
    if (other === undefined) continue
    return found.problem('kv_ports', `port ${portOf(endpoint!)} has the ${other.what} and the ${what}`, {
      costs: 'One of the two ranks does not start, or its events are lost.',
      next: 'A replay_endpoint in --kv-events-config with a port at least N above that of endpoint, for N ranks.',
    })
  }
}

const portOf = (endpoint: string): string => /:(\d+)$/.exec(endpoint)?.[1] ?? endpoint

/** Checks that data-parallel ranks are engines of their own, as many as the metrics show. */
export function checkRanks({ metrics, type }: EngineFacts, expected: ExpectedEngine | null, found: Findings): void {
  const shown = metrics.scraped?.ranks.length ?? 0
  const ranks = expected === null ? null : ranksOf(expected.engine)
  const header = type.ranks?.header
  if (ranks !== null && ranks.count !== null && shown > 0 && shown !== ranks.count)
    return found.problem('ranks', `/metrics shows ${shown}, and \`data_parallel\` names ${ranks.count}`, {
      costs: 'Requests to missing ranks are refused and retried; ranks that are not configured get none.',
      next: 'Set data_parallel of the engine to auto.',
    })
  if (shown < 2) return
  if (ranks !== null) return found.ok('ranks', `${shown}, each of which is an engine`)
  const names = Object.keys(expected?.engine.headers ?? {}).map((name) => name.toLowerCase())
  if (header === undefined || names.includes(header)) return
  found.warn('ranks', `${shown} data-parallel ranks are one engine`, {
    costs: `A repeated prompt finds its cache with probability 1/${shown}; load and cache size are sums.`,
    next: 'data_parallel: auto in the configuration of the engine.',
  })
}
