/** Keys that an operator has made at run time. Only hashes of their secrets are stored. */
import type { RequestClass } from '../contract/admission.ts'
import type { Budget } from '../budgets/budget.ts'
import { isJsonObject } from '../json.ts'
import type { KeyLimits } from '../limits/key-limits.ts'

export interface IssuedKey {
  readonly name: string
  /** SHA-256 of the secret, 64 lower-case hexadecimal digits. */
  readonly sha256: string
  /** Milliseconds since the epoch. */
  readonly createdAt: number
  /** Person or system that uses the key, for the operator; null: not given. */
  readonly owner: string | null
  /** Team of the configuration; null: none. */
  readonly team: string | null
  /** null: those of the team, or all. */
  readonly models: readonly string[] | null
  /** null: those of the team, or all. */
  readonly regions: readonly string[] | null
  /** null: that of the configuration. */
  readonly regionOrder: readonly string[] | null
  readonly allowOverrides: boolean
  readonly priority: number | null
  /** null: the default of the configuration. */
  readonly limits: KeyLimits | null
  /** null: none. */
  readonly budgets: readonly Budget[] | null
  readonly class: RequestClass
  readonly weight: number
  readonly ttftDeadlineMs: number | null
  /** First time at which the key is rejected, ISO 8601; null: none. */
  readonly expires: string | null
}

/** All issued keys, with a version that changes with each of them. */
export interface IssuedKeys {
  readonly version: string
  readonly keys: readonly IssuedKey[]
}

/**
 * Reads stored keys. An entry without a name or a hash is left out: it could not be used. Fields of newer versions are
 * ignored.
 */
export function decodeIssuedKeys(stored: unknown): readonly IssuedKey[] {
  return Array.isArray(stored) ? stored.flatMap((one) => decodeIssuedKey(one) ?? []) : []
}

export function decodeIssuedKey(stored: unknown): IssuedKey | null {
  if (!isJsonObject(stored)) return null
  const { name, sha256, createdAt } = stored
  if (typeof name !== 'string' || name === '' || typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/.test(sha256))
    return null
  return {
    name,
    sha256,
    createdAt: typeof createdAt === 'number' ? createdAt : 0,
    owner: textOf(stored['owner']),
    team: textOf(stored['team']),
    models: textsOf(stored['models']),
    regions: textsOf(stored['regions']),
    regionOrder: textsOf(stored['regionOrder']),
    allowOverrides: stored['allowOverrides'] === true,
    priority: numberOf(stored['priority']),
    limits: isJsonObject(stored['limits']) ? limitsOf(stored['limits']) : null,
    budgets: Array.isArray(stored['budgets']) ? stored['budgets'].flatMap(budgetOf) : null,
    class: classOf(stored['class']),
    weight: numberOf(stored['weight']) ?? 1,
    ttftDeadlineMs: numberOf(stored['ttftDeadlineMs']),
    expires: textOf(stored['expires']),
  }
}

const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)

const textsOf = (value: unknown): readonly string[] | null =>
  Array.isArray(value) ? value.filter((one) => typeof one === 'string') : null

const numberOf = (value: unknown): number | null => (typeof value === 'number' && Number.isFinite(value) ? value : null)

const classOf = (value: unknown): RequestClass => (value === 'critical' || value === 'sheddable' ? value : 'standard')

function budgetOf(stored: unknown): readonly Budget[] {
  if (!isJsonObject(stored)) return []
  const { per, atEnd, tokens, engineS, money } = stored
  if (per !== 'day' && per !== 'month') return []
  const limits = { tokens: numberOf(tokens), engineS: numberOf(engineS), money: numberOf(money) }
  return [{ per, ...limits, atEnd: atEnd === 'sheddable' ? atEnd : 'refuse' }]
}

const limitsOf = (stored: Readonly<Record<string, unknown>>): KeyLimits => ({
  requestsPerMin: numberOf(stored['requestsPerMin']),
  tokensPerMin: numberOf(stored['tokensPerMin']),
  tokensPerDay: numberOf(stored['tokensPerDay']),
  concurrent: numberOf(stored['concurrent']),
})
