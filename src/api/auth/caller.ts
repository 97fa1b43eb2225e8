import type { Config, KeyConfig } from '../../config.ts'
import type { IssuedKey } from '../../core/keys/issued-key.ts'
import type { Budget } from '../../core/budgets/budget.ts'
import type { RequestClass } from '../../core/contract/admission.ts'
import { UNLIMITED } from '../../core/limits/key-limiter.ts'
import type { KeyLimits } from '../../core/limits/key-limits.ts'
import type { RegionPreference } from '../../core/routing/region-preference.ts'

/** Identity of a client. Without keys all clients are one. */
export interface Caller {
  /** Name of the key: tenant of bookings, label of logs and metrics. */
  readonly tenant: string
  readonly models: readonly string[] | null
  /** Regions whose clusters may serve the key's requests. null: all. */
  readonly regions: readonly string[] | null
  /** Regions that an edge in front of this gateway names for the request. Absent: it names none. */
  readonly edgeRegions?: readonly string[]
  /** null: that of the gateway. */
  readonly regionPreference: RegionPreference | null
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
  regions: null,
  regionPreference: null,
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
type Defaults = Pick<Config, 'keyLimits' | 'teams' | 'regionPreference'>

export function callerOf(name: string, rights: KeyRights, { keyLimits, teams, regionPreference }: Defaults): Caller {
  const { models, allowOverrides, edge, cacheSalt, priority, limits, weight, ttftDeadlineMs } = rights
  const team = teams.find((one) => one.name === rights.team) ?? null
  return {
    tenant: name,
    models: models ?? team?.models ?? null,
    regions: rights.regions ?? team?.regions ?? null,
    regionPreference: preferenceOf(rights.regionOrder, regionPreference),
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

/** null: the key has no order of its own, and the gateway's applies. */
const preferenceOf = (order: readonly string[] | null, general: Config['regionPreference']): RegionPreference | null =>
  order === null ? null : { order, whenFull: general?.whenFull ?? 'next', spillTtftMs: general?.spillTtftMs ?? null }

/** Caller of a key that was made at run time. */
export const issuedCallerOf = (key: IssuedKey, defaults: Defaults): Caller =>
  callerOf(key.name, { ...key, edge: false, cacheSalt: null }, defaults)

const withDefaults = (limits: LimitsOfKey | null, defaults: LimitsOfKey | null): KeyLimits => ({
  requestsPerMin: limits?.requestsPerMin ?? defaults?.requestsPerMin ?? null,
  tokensPerMin: limits?.tokensPerMin ?? defaults?.tokensPerMin ?? null,
  tokensPerDay: limits?.tokensPerDay ?? defaults?.tokensPerDay ?? null,
  concurrent: limits?.concurrent ?? defaults?.concurrent ?? null,
})
