/** Rules for regions that keys, teams and the order of preference name. */
import type { Config } from '../config.ts'
import { checkDuplicates } from './duplicates.ts'
import type { Finding } from './finding.ts'
import type { Path } from './path.ts'
import { didYouMean } from './suggest.ts'

/** Regions that a key may name. */
interface KeyRegions {
  readonly regions: readonly string[] | null
  readonly regionOrder?: readonly string[] | null
}

export function checkRegions(findings: Finding[], document: Config): void {
  const { keys, jwt, teams, regionPreference } = document
  for (const [index, key] of (keys ?? []).entries()) checkKeyRegions(findings, document, key, ['keys', index])
  if (jwt !== null) checkKeyRegions(findings, document, jwt, ['jwt'])
  for (const [index, team] of teams.entries()) checkKeyRegions(findings, document, team, ['teams', index])
  if (regionPreference === null) return
  const at: Path = ['region_preference']
  checkNames(findings, document, regionPreference.order ?? [], [...at, 'order'])
  if (regionPreference.whenFull === 'refuse' && regionPreference.spillTtftMs !== null)
    findings.push({ path: [...at, 'spill_ttft_ms'], rule: 'contradicts `when_full: refuse`: leave one of them out' })
}

/** Regions of a key exist, and it prefers none that it may not use. `at`: path of the key. */
export function checkKeyRegions(
  findings: Finding[],
  document: Pick<Config, 'clusters'>,
  { regions, regionOrder = null }: KeyRegions,
  at: Path,
): void {
  checkNames(findings, document, regions ?? [], [...at, 'regions'])
  checkNames(findings, document, regionOrder ?? [], [...at, 'region_order'])
  if (regions === null) return
  for (const [index, region] of (regionOrder ?? []).entries())
    if (!regions.includes(region))
      findings.push({ path: [...at, 'region_order', index], rule: 'is not among the `regions` of the key' })
}

function checkNames(
  findings: Finding[],
  { clusters }: Pick<Config, 'clusters'>,
  names: readonly string[],
  at: Path,
): void {
  const known = [...new Set(clusters.flatMap(({ region }) => region ?? []))]
  for (const [index, name] of names.entries())
    if (!known.includes(name))
      findings.push({ path: [...at, index], rule: `is the \`region\` of no cluster${didYouMean(name, known)}` })
  checkDuplicates(
    findings,
    names.map((name, index) => [name, [...at, index]]),
  )
}
