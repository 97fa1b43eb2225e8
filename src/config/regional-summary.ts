/** What `firstlight check` says of clusters behind another gateway. */
import type { ClusterConfig, Config, RegionalGateway } from '../config.ts'
import { bareHost } from './place.ts'
import { isLoopback } from './values.ts'

export const regionalSettings = ({ rttMs, outlookMs }: RegionalGateway): Readonly<Record<string, string>> => ({
  'round trip': rttMs === null ? 'measured' : `${rttMs} ms`,
  outlook: `at most ${outlookMs} ms old`,
})

/** Nothing wrong, but worth knowing. */
export function regionalNotes({ clusters }: Pick<Config, 'clusters'>): string[] {
  return clusters.flatMap((cluster) => (cluster.gateway === undefined ? [] : [...lonely(cluster, clusters), ...ofTheWay(cluster)].map((note) => `${cluster.id}: ${note}`)))
}

function lonely({ id, pools }: ClusterConfig, clusters: readonly ClusterConfig[]): string[] {
  const alone = pools.filter(({ model }) => !clusters.some((other) => other.id !== id && other.pools.some((pool) => pool.model === model)))
  if (alone.length === 0) return []
  const models = alone.map(({ model }) => model).join(', ')
  return [`no other cluster has ${models}: what this one expects decides nothing, and nothing can take over when it fails.`]
}

/** What goes there is what clients say, and a key that opens engines. */
function ofTheWay({ pools }: ClusterConfig): string[] {
  const { url, key, headers, binding } = pools[0]!.engines[0]!
  if (binding !== null) return []
  const to = new URL(url)
  const isOpen = to.protocol === 'http:' && !isLoopback(bareHost(to))
  const hasSecret = key !== null || Object.keys(headers).length > 0
  return [
    ...(isOpen && hasSecret ? ['its key goes over http: in the clear, and so do prompts. Say https:, unless the network encrypts.'] : []),
    ...(hasSecret ? [] : ['has no `key`: a gateway that asks for keys tells nothing and serves nobody without one.']),
  ]
}
