/** What an operator can change about a server, by its type (docs/engines.md). */
import { guideOf } from '../../../engines/engine-guides.ts'
import type { EngineType } from '../../../engines/engine-type.ts'
import type { Findings } from '../finding.ts'

type Server = { readonly type: EngineType }

/** Setting of the server that exports its load. */
export function metricsNext({ type }: Server): string {
  const { title, load } = type
  const { inspection } = guideOf(type)
  if (inspection !== null) return inspection.next.load
  return load === null || load.enabledBy === null
    ? `${title} has no setting for them.`
    : `Start it with ${load.enabledBy}.`
}

/** Setting of the server that reports cached tokens. */
export function cachedTokensNext({ type }: Server): string {
  const { cachedTokensBy, inspection } = guideOf(type)
  if (inspection !== null) return inspection.next.cachedTokens
  return cachedTokensBy === null
    ? `${type.title} reports them in newer versions only, or not at all.`
    : `Start it with ${cachedTokensBy}.`
}

export function checkQuirks({ type }: Server, found: Findings): void {
  for (const { message, costs, next } of guideOf(type).quirks) found.note('quirk', message, { costs, next })
}
