/** Roles of engines: which legs they can do. */
import type { LegRole } from '../../contract/legs.ts'
import type { PoolConfig, Role } from '../../contract/pool-config.ts'

interface Roles {
  readonly encodes: boolean
  readonly splits: boolean
  /** Whether any engine has a role other than `any`. */
  readonly differ: boolean
}

const roles = new WeakMap<PoolConfig, Roles>()

/** Roles of a pool, computed once per configuration. */
export function rolesOf(pool: PoolConfig): Roles {
  const known = roles.get(pool)
  if (known !== undefined) return known
  const found = {
    encodes: pool.engines.some(({ role }) => role === 'encode'),
    splits: splits(pool),
    differ: pool.engines.some(({ role }) => role !== 'any') || splits(pool),
  }
  roles.set(pool, found)
  return found
}

/**
 * Whether the pool has dedicated prefill or decode engines, and different engines for both. With `fallback: fail` it
 * still splits while discovery finds no engine of a configured role.
 */
function splits({ engines, split }: PoolConfig): boolean {
  const present = engines.map(({ role }) => role)
  const isOneSided = present.length > 0 && !present.includes('any')
  if (split.fallback === 'fail' && split.mode !== 'never' && isOneSided) return true
  const lost = split.fallback === 'fail' ? (['prefill', 'decode'] as const).filter((role) => split.roles?.[role]) : []
  const configured = [...present, ...lost.filter((role) => !present.includes(role))]
  const prefillers = configured.filter((role) => supportsRole(role, 'prefill')).length
  const decoders = configured.filter((role) => supportsRole(role, 'decode')).length
  // One engine of role `any` counts on both sides.
  return configured.some((role) => role === 'prefill' || role === 'decode') && prefillers > 0 && decoders > 0
}

const LEGS_OF_ROLE: Readonly<Record<Role, readonly LegRole[]>> = {
  // An `any` engine encodes as part of a whole request: sending only the items would transfer them twice.
  any: ['whole', 'prefill', 'decode'],
  prefill: ['prefill'],
  // A decode engine can prefill for itself: that is what serving without a split means.
  decode: ['whole', 'decode'],
  encode: ['encode'],
}

export function supportsRole(role: Role, legRole: LegRole): boolean {
  return LEGS_OF_ROLE[role].includes(legRole)
}

/** Whether engines of these roles can replace each other for some leg. */
export function overlaps(one: Role, other: Role): boolean {
  return LEGS_OF_ROLE[one].some((legRole) => LEGS_OF_ROLE[other].includes(legRole))
}
