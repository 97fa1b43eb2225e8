/** Rules for the keys of clients and for secrets. */
import type { Config, ConfigDocument, KeyDocument } from '../config.ts'
import { isLoopback } from './address.ts'
import { isPattern, matchesPattern } from './alias-pattern.ts'
import { checkDuplicates } from './duplicates.ts'
import type { Finding } from './finding.ts'
import { type Path, renderPath } from './path.ts'
import { checkBudgets } from './validate-budgets.ts'
import { modelNames } from './pool-names.ts'
import { didYouMean } from './suggest.ts'

export function checkKeys(findings: Finding[], document: Config, listens: boolean): void {
  const { keys, jwt, issuedKeys } = document
  checkTeams(findings, document)
  for (const [index, key] of (keys ?? []).entries()) checkBudgets(findings, document, key.budgets, ['keys', index])
  if (jwt !== null) checkBudgets(findings, document, jwt.budgets, ['jwt'])
  checkIssuedKeys(findings, document, listens)
  if (keys === null && jwt === null && issuedKeys === null) {
    if (listens && !document.open && !isLoopback(document.listen.host)) {
      findings.push({
        path: ['listen'],
        rule: 'can be reached from other machines: configure `keys`, or set `open: true`',
      })
    }
    return
  }
  const names = keys !== null ? 'keys' : jwt !== null ? 'jwt' : 'issued_keys'
  if (document.open) findings.push({ path: ['open'], rule: `contradicts \`${names}\`: leave one of them out` })
  checkDuplicates(
    findings,
    (keys ?? []).map((key, index) => [key.name, ['keys', index, 'name']]),
  )
  const granted = (keys ?? []).map(({ models, team }, index) => ({ models, team, path: ['keys', index] as Path }))
  if (jwt !== null) granted.push({ models: jwt.models, team: jwt.team, path: ['jwt'] })
  for (const { models, team, path } of granted) {
    checkGrantedModels(findings, document, models ?? [], path)
    checkTeam(findings, document, team, path)
  }
}

function checkTeams(findings: Finding[], document: Config): void {
  const { teams } = document
  checkDuplicates(
    findings,
    teams.map((team, index) => [team.name, ['teams', index, 'name']]),
  )
  for (const [index, { models, budgets }] of teams.entries()) {
    checkGrantedModels(findings, document, models ?? [], ['teams', index])
    checkBudgets(findings, document, budgets, ['teams', index])
  }
}

/** A team that a key names exists. `at`: path of the key. */
export function checkTeam(findings: Finding[], { teams }: Pick<Config, 'teams'>, team: string | null, at: Path): void {
  const names = teams.map(({ name }) => name)
  if (team !== null && !names.includes(team))
    findings.push({ path: [...at, 'team'], rule: `is not a team of \`teams\`${didYouMean(team, names)}` })
}

function checkIssuedKeys(findings: Finding[], { issuedKeys, admin, replicas }: Config, listens: boolean): void {
  if (issuedKeys === null) return
  if (admin === null)
    findings.push({ path: ['issued_keys'], rule: 'needs `admin`: only its key may make and revoke keys' })
  if (listens && issuedKeys.file === null && replicas === null)
    findings.push({
      path: ['issued_keys', 'file'],
      rule: 'is required without `replicas`: a file for the hashes of the keys',
    })
}

/** Models that a key or team names are served. `at`: path of the object that has `models`. */
export function checkGrantedModels(
  findings: Finding[],
  { clusters, weightedModels }: Pick<Config, 'clusters' | 'weightedModels'>,
  models: readonly string[],
  at: Path,
): void {
  const served = new Set([
    ...clusters.flatMap((cluster) => cluster.pools.flatMap(modelNames)),
    ...weightedModels.map(({ name }) => name),
  ])
  const patterns = [...served].filter(isPattern)
  // Adapters that engines report are known later.
  if (clusters.some(({ pools }) => pools.some(({ reportsAdapters }) => reportsAdapters))) return
  for (const [index, model] of models.entries()) {
    if (!served.has(model) && !patterns.some((pattern) => matchesPattern(model, pattern)))
      findings.push({ path: [...at, 'models', index], rule: `is served by no pool${didYouMean(model, [...served])}` })
  }
}

/** Each key has one secret or a list of them, and each secret of a list is accepted for some time. */
export function checkKeyForms({ keys }: ConfigDocument): Finding[] {
  return (keys ?? []).flatMap(({ secret, expires, secrets }, index): Finding[] => {
    const path: Path = ['keys', index]
    if (secrets === null) return secret === null ? [{ path, rule: 'has no secret: set `secret` or `secrets`' }] : []
    return [
      ...(secret === null ? [] : [{ path: [...path, 'secret'], rule: 'contradicts `secrets`: leave one of them out' }]),
      ...(expires === null
        ? []
        : [{ path: [...path, 'expires'], rule: 'applies to `secret` alone: set it in each of `secrets`' }]),
      ...secrets.flatMap(({ from, expires: end }, at) =>
        from !== null && end !== null && Date.parse(end) <= Date.parse(from)
          ? [{ path: [...path, 'secrets', at, 'expires'], rule: `must be after \`from\` (${from})` }]
          : [],
      ),
    ]
  })
}

/** Secrets are unique across keys, `admin` and `bridge`. */
export function checkSecrets(
  { keys, admin, bridge }: ConfigDocument,
  hashOf: (secret: string) => string = (secret) => secret,
): Finding[] {
  const findings: Finding[] = []
  const owners = new Map<string, string>()
  if (admin !== null) owners.set(hashOf(admin.secret), 'admin')
  if (bridge !== null) owners.set(hashOf(bridge.secret), 'bridge')
  for (const { secret, path } of (keys ?? []).flatMap(secretsOf)) {
    const hash = typeof secret === 'string' ? hashOf(secret) : secret.sha256
    const owner = owners.get(hash)
    // An unresolved secret is '' and was reported already.
    if (owner !== undefined && secret !== '')
      findings.push({ path: [...path, 'secret'], rule: `is also the secret of ${owner}` })
    else owners.set(hash, renderPath(path))
  }
  return findings
}

/** The secrets of a key, each with the path of the object that contains it. */
function secretsOf({ secret, secrets }: KeyDocument, index: number) {
  const path: Path = ['keys', index]
  const listed = (secrets ?? []).map((one, at) => ({ secret: one.secret, path: [...path, 'secrets', at] as Path }))
  return secret === null ? listed : [{ secret, path }, ...listed]
}
