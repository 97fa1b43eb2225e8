import type { CapacityError, PoolCapacity, RoleCapacity } from '../contract/pool-capacity.ts'

/** Joins the capacities of the parts of one pool, by role. */
export function mergeCapacities(all: readonly PoolCapacity[]): PoolCapacity {
  const byRole = Map.groupBy(all.flat(), ({ role }) => role)
  return [...byRole.values()].map((parts) => parts.reduce(joined))
}

/** Adds the compared minutes of the parts of one pool. Each part has its own engines and arrivals. */
export function mergeCapacityErrors(all: readonly CapacityError[]): CapacityError | null {
  if (all.length === 0) return null
  const sum = (field: keyof CapacityError): number => all.reduce((total, one) => total + one[field], 0)
  return { minutes: sum('minutes'), overstated: sum('overstated'), understated: sum('understated') }
}

function joined(one: RoleCapacity, other: RoleCapacity): RoleCapacity {
  const neededEngines = one.neededEngines + other.neededEngines
  const busyEngines = Math.min(1, one.replicas + other.replicas)
  return {
    role: one.role,
    replicas: Math.max(busyEngines, Math.ceil(neededEngines)),
    neededEngines,
    requestsPerS: one.requestsPerS + other.requestsPerS,
    spareRequestsPerS: known(one.spareRequestsPerS, other.spareRequestsPerS, (a, b) => a + b),
    exhaustionS: known(one.exhaustionS, other.exhaustionS, Math.min),
  }
}

const known = (one: number | null, other: number | null, join: (a: number, b: number) => number): number | null =>
  one === null || other === null ? (one ?? other) : join(one, other)
