import type { Config } from '../config.ts'
import type { IssuedKey } from '../core/keys/issued-key.ts'
import { type Finding, findings, ruleOf } from './finding.ts'
import { issuedKey } from './key-schema.ts'
import { renderPath } from './path.ts'
import { type Problem, renderValue } from './problem.ts'
import { checkBudgets } from './validate-budgets.ts'
import { checkGrantedModels, checkTeam } from './validate-keys.ts'
import { checkKeyRegions } from './validate-regions.ts'

/** What an operator asks for with a new key. */
type IssuedKeyRequest = Omit<IssuedKey, 'sha256' | 'createdAt'>

type ModelsAndTeams = Pick<Config, 'clusters' | 'weightedModels' | 'teams'>

/**
 * Validates the body with which an operator makes a key, by the schema of `keys`.
 * @param now milliseconds since the epoch
 * @returns the first problem if it is not valid
 */
export function parseIssuedKey(
  body: Readonly<Record<string, unknown>>,
  config: ModelsAndTeams,
  now: number,
): IssuedKeyRequest | Problem {
  const result = issuedKey.safeParse(body, { error: ruleOf, reportInput: true })
  if (!result.success) return problemOf(body, findings(result.error.issues)[0]!)
  const found: Finding[] = []
  const { team, models, expires } = result.data
  if (models !== null) checkGrantedModels(found, config, models, [])
  checkTeam(found, config, team, [])
  checkKeyRegions(found, config, result.data, [])
  checkBudgets(found, config, result.data.budgets, [])
  if (expires !== null && Date.parse(expires) <= now)
    found.push({ path: ['expires'], rule: 'is in the past: the key would be rejected at once' })
  return found[0] === undefined ? result.data : problemOf(body, found[0])
}

const problemOf = (body: unknown, { path, rule }: Finding): Problem => ({
  path: renderPath(path),
  value: renderValue(body, path),
  rule,
  line: null,
})
