import type { CacheHint } from '../cluster/contract.ts'
import type { Holders, Reach } from './holders.ts'

export interface Readers {
  /** Engines of the pool, and the instance each reads from. */
  readonly pairs: readonly { readonly engine: string; readonly instance: string }[]
  /** All engines of the pool. */
  readonly engines: readonly string[]
  /** Engines can read each other's cache: the best match of anyone counts for each, as remote. */
  readonly shared: boolean
  readonly promptTokens: number
}

const NOTHING: Reach = { host: 0, disk: 0, remote: 0 }

/**
 * What instances hold, as facts about engines: one hint a tier that adds something to the nearer ones. Instances
 * that belong to no engine of the pool are ignored, but for what everybody can read; nothing exceeds the prompt.
 */
export function hintsOf(holders: Holders, { pairs, engines, shared, promptTokens }: Readers): CacheHint[] {
  const instanceOf = new Map(pairs.map(({ engine, instance }) => [engine, instance]))
  const anyone = shared ? Math.max(holders.shared, ...[...holders.instances.values()].map(({ remote }) => remote)) : 0
  const hints: CacheHint[] = []
  for (const engine of engines) {
    const instance = instanceOf.get(engine)
    const own = instance === undefined ? NOTHING : (holders.instances.get(instance) ?? NOTHING)
    const common = instance === undefined ? anyone : Math.max(anyone, holders.shared)
    let sofar = 0
    for (const [tier, tokens] of [['host', own.host], ['disk', own.disk], ['remote', Math.max(own.remote, common)]] as const) {
      const matchedTokens = Math.min(promptTokens, tokens)
      if (matchedTokens > sofar) hints.push({ engine, matchedTokens, tier })
      sofar = Math.max(sofar, matchedTokens)
    }
  }
  return hints
}
