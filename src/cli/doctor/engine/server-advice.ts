/** What an operator can change about a server, by its type (docs/engines.md). */
import type { EngineType } from '../../../engines/engine-type.ts'
import type { Findings } from '../finding.ts'

type Server = { readonly type: EngineType }

/** Setting of the server that exports its load. */
export function metricsNext({ type: { title, load, hasVllmFlags } }: Server): string {
  if (hasVllmFlags) return 'vLLM exports them unless started with --disable-log-stats; a proxy may hide the route.'
  return load === null || load.enabledBy === null
    ? `${title} has no setting for them.`
    : `Start it with ${load.enabledBy}.`
}

/** Setting of the server that reports cached tokens. */
export function cachedTokensNext({ type: { title, cachedTokensBy, hasVllmFlags } }: Server): string {
  if (hasVllmFlags) return 'vllm serve … --enable-prompt-tokens-details'
  return cachedTokensBy === null
    ? `${title} reports them in newer versions only, or not at all.`
    : `Start it with ${cachedTokensBy}.`
}

export function checkQuirks({ type }: Server, found: Findings): void {
  for (const { message, costs, next } of type.quirks) found.note('quirk', message, { costs, next })
}
