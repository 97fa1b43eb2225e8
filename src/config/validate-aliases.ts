/** Rules for aliases that are patterns. */
import type { Config } from '../config.ts'
import { isAmbiguous, isMalformedPattern, isPattern } from './alias-pattern.ts'
import type { Finding } from './finding.ts'
import { type Path, renderPath } from './path.ts'

interface PatternAlias {
  readonly alias: string
  readonly model: string
  readonly path: Path
}

export function checkAliases(findings: Finding[], config: Config): void {
  const patterns = patternsOf(config)
  for (const [at, one] of patterns.entries()) {
    if (isMalformedPattern(one.alias)) {
      findings.push({ path: one.path, rule: 'must have at most one *' })
      continue
    }
    const other = patterns.slice(0, at).find(({ alias, model }) => model !== one.model && isAmbiguous(alias, one.alias))
    if (other !== undefined)
      findings.push({
        path: one.path,
        rule:
          `is ambiguous with ${renderPath(other.path)}, ${other.alias}: both match some name, of different models. ` +
          'Make one of them narrower',
      })
  }
}

function patternsOf({ clusters }: Config): PatternAlias[] {
  return clusters.flatMap(({ pools, gateway }, cluster) =>
    pools.flatMap(({ model, aliases }, pool) =>
      aliases.flatMap((alias, entry): PatternAlias[] => {
        const place: Path = gateway === null ? ['pools', pool] : ['gateway', 'models', pool]
        return isPattern(alias) ? [{ alias, model, path: ['clusters', cluster, ...place, 'aliases', entry] }] : []
      }),
    ),
  )
}
