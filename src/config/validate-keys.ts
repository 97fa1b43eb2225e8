/** Rules for the keys of clients and for secrets. */
import type { Config, ConfigDocument, KeyDocument, PoolSettings } from '../config.ts'
import { isLoopback } from './address.ts'
import { isPattern, matchesPattern } from './alias-pattern.ts'
import { checkDuplicates } from './duplicates.ts'
import type { Finding } from './finding.ts'
import { type Path, renderPath } from './path.ts'
import { didYouMean } from './suggest.ts'

export function checkKeys(findings: Finding[], document: Config, listens: boolean): void {
  const { keys, jwt } = document
  if (keys === null && jwt === null) {
    if (listens && !document.open && !isLoopback(document.listen.host)) {
      findings.push({
        path: ['listen'],
        rule: 'can be reached from other machines: configure `keys`, or set `open: true`',
      })
    }
    return
  }
  const names = keys === null ? 'jwt' : 'keys'
  if (document.open) findings.push({ path: ['open'], rule: `contradicts \`${names}\`: leave one of them out` })
  checkDuplicates(
    findings,
    (keys ?? []).map((key, index) => [key.name, ['keys', index, 'name']]),
  )
  const served = new Set(document.clusters.flatMap((cluster) => cluster.pools.flatMap(modelNames)))
  const patterns = [...served].filter(isPattern)
  const granted = (keys ?? []).map(({ models }, index) => ({ models, path: ['keys', index] as Path }))
  if (jwt !== null) granted.push({ models: jwt.models, path: ['jwt'] })
  for (const { models, path } of granted)
    for (const [at, model] of (models ?? []).entries()) {
      if (!served.has(model) && !patterns.some((pattern) => matchesPattern(model, pattern)))
        findings.push({ path: [...path, 'models', at], rule: `is served by no pool${didYouMean(model, [...served])}` })
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

function modelNames(pool: PoolSettings): string[] {
  return [pool.model, ...pool.aliases, ...pool.adapters]
}
