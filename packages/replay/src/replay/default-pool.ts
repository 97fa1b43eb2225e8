import { parseConfig } from '../../../../src/config/parse.ts'
import { toPoolConfig } from '../../../../src/config/to-pool-config.ts'
import type { PoolConfig } from '../../../../src/core/contract/pool-config.ts'

let parsed: PoolConfig | null = null

/** Pool with the defaults of the configuration's schema and one engine. */
export function defaultPool(): PoolConfig {
  parsed ??= parse()
  return parsed
}

function parse(): PoolConfig {
  const pool = { model: 'm', engines: [{ id: 'a', url: 'http://127.0.0.1' }] }
  const document = { clusters: [{ id: 'c', pools: [pool] }] }
  const { clusters } = parseConfig(document, {}, { defaultVersion: 1, defaultObserveShare: 1, listens: false })
  return toPoolConfig(clusters[0]!, clusters[0]!.pools[0]!)
}
