import type { CacheHint } from '../contract/admission.ts'
import type { Holders, PrefixMatch } from './prefix-match.ts'

interface HintReaders {
  /** Engines of the pool, and the instance each reads from. */
  readonly pairs: readonly { readonly engine: string; readonly instance: string }[]
  /** All engines of the pool. */
  readonly engines: readonly string[]
  /** Engines can read each other's cache: the best match of any counts for each, as remote. */
  readonly shared: boolean
  readonly promptTokens: number
}

const NO_MATCH: PrefixMatch = { host: 0, disk: 0, remote: 0 }

/**
 * Converts holders to hints about engines: one hint per tier that adds tokens to the nearer ones. Instances without an
 * engine of the pool are ignored, except shared stores; nothing exceeds the prompt.
 */
export function hintsOf(holders: Holders, { pairs, engines, shared, promptTokens }: HintReaders): CacheHint[] {
  const instanceOf = new Map(pairs.map(({ engine, instance }) => [engine, instance]))
  const sharedTokens = shared
    ? Math.max(holders.shared, ...[...holders.instances.values()].map(({ remote }) => remote))
    : 0
  const hints: CacheHint[] = []
  for (const engine of engines) {
    const instance = instanceOf.get(engine)
    const own = instance === undefined ? NO_MATCH : (holders.instances.get(instance) ?? NO_MATCH)
    const common = instance === undefined ? sharedTokens : Math.max(sharedTokens, holders.shared)
    let matchedSoFar = 0
    for (const [tier, tokens] of [
      ['host', own.host],
      ['disk', own.disk],
      ['remote', Math.max(own.remote, common)],
    ] as const) {
      const matchedTokens = Math.min(promptTokens, tokens)
      if (matchedTokens > matchedSoFar) hints.push({ engine, matchedTokens, tier })
      matchedSoFar = Math.max(matchedSoFar, matchedTokens)
    }
  }
  return hints
}
