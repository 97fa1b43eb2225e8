import type { Config, KeyConfig } from '../../config.ts'
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
}

type KeyRights = Omit<KeyConfig, 'name' | 'secrets'>

export const callerOf = (
  name: string,
  { models, allowOverrides, edge, cacheSalt, priority, limits, ...overload }: KeyRights,
  defaults: Config['keyLimits'],
): Caller => ({
  tenant: name,
  models,
  allowOverrides,
  edge,
  cacheSalt,
  priority,
  requestClass: overload.class,
  weight: overload.weight,
  ttftDeadlineMs: overload.ttftDeadlineMs,
  limits: {
    requestsPerMin: limits?.requestsPerMin ?? defaults?.requestsPerMin ?? null,
    tokensPerMin: limits?.tokensPerMin ?? defaults?.tokensPerMin ?? null,
    tokensPerDay: limits?.tokensPerDay ?? defaults?.tokensPerDay ?? null,
    concurrent: limits?.concurrent ?? defaults?.concurrent ?? null,
  },
})
