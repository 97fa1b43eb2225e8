/** Rules for the budgets of keys and teams. */
import type { Config } from '../config.ts'
import type { Budget } from '../core/budgets/budget.ts'
import type { Finding } from './finding.ts'
import type { Path } from './path.ts'

/** Each budget limits something that is counted. `at`: path of the object that has `budgets`. */
export function checkBudgets(
  findings: Finding[],
  { clusters }: Pick<Config, 'clusters'>,
  budgets: readonly Budget[] | null,
  at: Path,
): void {
  const pools = clusters.flatMap((cluster) => cluster.pools)
  const countsCosts = pools.some(({ cost }) => cost !== null)
  const hasPrice = pools.some(({ cost }) => cost !== null && cost.pricePerEngineHour !== null)
  for (const [index, { tokens, engineS, money }] of (budgets ?? []).entries()) {
    const path: Path = [...at, 'budgets', index]
    if (tokens === null && engineS === null && money === null)
      findings.push({ path, rule: 'limits nothing: set `tokens`, `engine_s` or `money`' })
    if (engineS !== null && !countsCosts)
      findings.push({ path: [...path, 'engine_s'], rule: 'is counted by no pool: set `cost` of a pool' })
    if (money !== null && !hasPrice)
      findings.push({
        path: [...path, 'money'],
        rule: 'is counted by no pool: set `cost.price_per_engine_hour` of a pool',
      })
  }
}
