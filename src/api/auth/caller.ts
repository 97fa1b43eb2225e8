import type { Config, KeyConfig } from '../../config.ts'
import type { IssuedKey } from '../../core/keys/issued-key.ts'
import type { Budget } from '../../core/budgets/budget.ts'
import type { RequestClass } from '../../core/contract/admission.ts'
import { UNLIMITED } from '../../core/limits/key-limiter.ts'
import type { KeyLimits } from '../../core/limits/key-limits.ts'

/** Identity of a client. Without keys all clients are one. */
export interface Caller {
  /** Name of the key: tenant of bookings, label of logs and metrics. */
  readonly tenant: string
  readonly models: readonly string[] | null
  readonly allowOverrides: boolean
  /** May read the region digest. */
  readonly edge: boolean
  readonly cacheSalt: string | null
  /** Priority of all requests of this key at engines, instead of the client's; null: none. */
  readonly priority: number | null
  /** Class under overload. */
  readonly requestClass: RequestClass
  /** Share under overload, relative to other keys. */
  readonly weight: number
  /** Deadline of the first token, ms; null: none. */
  readonly ttftDeadlineMs: number | null
  readonly limits: KeyLimits
  readonly budgets: readonly Budget[]
  /** Team whose limits its keys share; null: none. */
  readonly team: Team | null
}

interface Team {
  readonly name: string
  readonly limits: KeyLimits
  readonly budgets: readonly Budget[]
}

/** Without keys there are no tenants to separate: clients may choose policy, weights and priority. */
export const ANYONE: Caller = {
  tenant: 'open',
  models: null,
  allowOverrides: true,
  edge: true,
  cacheSalt: null,
  priority: null,
  requestClass: 'standard',
  weight: 1,
  ttftDeadlineMs: null,
  limits: UNLIMITED,
  budgets: [],
  team: null,
}

type KeyRights = Omit<KeyConfig, 'name' | 'secrets'>

type LimitsOfKey = NonNullable<KeyConfig['limits']>

/** What callers get that their keys do not name. */
type Defaults = Pick<Config, 'keyLimits' | 'teams'>

export function callerOf(name: string, rights: KeyRights, { keyLimits, teams }: Defaults): Caller {
  const { models, allowOverrides, edge, cacheSalt, priority, limits, weight, ttftDeadlineMs } = rights
  const team = teams.find((one) => one.name === rights.team) ?? null
  return {
    tenant: name,
    models: models ?? team?.models ?? null,
    allowOverrides,
    edge,
    cacheSalt,
    priority,
    requestClass: rights.class,
    weight,
    ttftDeadlineMs,
    limits: withDefaults(limits, keyLimits),
    budgets: rights.budgets ?? [],
    team: team === null ? null : { name: team.name, limits: team.limits ?? UNLIMITED, budgets: team.budgets ?? [] },
  }
}

/** Caller of a key that was made at run time. */
export const issuedCallerOf = (key: IssuedKey, defaults: Defaults): Caller =>
  callerOf(key.name, { ...key, edge: false, cacheSalt: null }, defaults)

const withDefaults = (limits: LimitsOfKey | null, defaults: LimitsOfKey | null): KeyLimits => ({
  requestsPerMin: limits?.requestsPerMin ?? defaults?.requestsPerMin ?? null,
  tokensPerMin: limits?.tokensPerMin ?? defaults?.tokensPerMin ?? null,
  tokensPerDay: limits?.tokensPerDay ?? defaults?.tokensPerDay ?? null,
  concurrent: limits?.concurrent ?? defaults?.concurrent ?? null,
})
