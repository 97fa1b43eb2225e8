/** Rules for adapters that engines load on demand. */
import type { ConfigDocument, PoolDocument } from '../config.ts'
import { adapterListOf } from './adapters.ts'
import type { Finding } from './finding.ts'
import type { Path } from './path.ts'

/** Names that cannot leave the folder of the adapters. */
const FILE_NAME = /^(?!\.{1,2}$)[\w.-]+$/

export function checkAdapters({ clusters }: ConfigDocument): Finding[] {
  return clusters.flatMap(({ pools }, cluster) =>
    (pools ?? []).flatMap((pool, index) => checkPoolAdapters(pool, ['clusters', cluster, 'pools', index])),
  )
}

function checkPoolAdapters(pool: PoolDocument, at: Path): Finding[] {
  const { model, aliases, engines } = pool
  const adapters = adapterListOf(pool.adapters)
  if (adapters === null) return []
  const findings: Finding[] = []
  const path = [...at, 'adapters']
  const { names, load, path: template } = adapters
  if (!load && template !== null) findings.push({ path: [...path, 'path'], rule: 'needs load: true' })
  if (load && template !== null && !template.includes('{name}') && names.length > 1)
    findings.push({ path: [...path, 'path'], rule: 'must contain {name}, because it is that of several adapters' })
  if (load && engines.some(({ role }) => role !== 'any'))
    findings.push({ path: [...path, 'load'], rule: 'needs engines of role any: split requests load no adapters' })
  for (const [entry, one] of names.entries()) {
    const { name, path: own, base } = typeof one === 'string' ? { name: one, path: null, base: null } : one
    const here = [...path, 'names', entry]
    if (base !== null && base !== model && !aliases.includes(base))
      findings.push({
        path: [...here, 'base'],
        rule: `must be the pool's model, ${model}: an adapter works with its base model only`,
      })
    if (own !== null && !load) findings.push({ path: [...here, 'path'], rule: 'needs load: true' })
    if (!load || own !== null) continue
    if (template === null)
      findings.push({ path: here, rule: 'has no path from which it could be loaded: set `path` of the adapters' })
    else if (template.includes('{name}') && !FILE_NAME.test(name))
      findings.push({
        path: here,
        rule: 'must consist of letters, digits, ".", "_" and "-" to be part of a path; or give it a path of its own',
      })
  }
  return findings
}
