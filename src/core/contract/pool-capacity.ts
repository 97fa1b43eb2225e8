import type { Role } from './pool-config.ts'

/** Capacity of the engines of one role, in terms of the objective of their pool. */
export interface RoleCapacity {
  readonly role: Role
  /** Engines that keep the objective at the present arrivals. 0: no request has arrived lately, and none is live. */
  readonly replicas: number
  /** The same, not rounded. */
  readonly neededEngines: number
  /** Arrivals per second, with refused ones. */
  readonly requestsPerS: number
  /** Further requests per second until requests are refused. null: no request has been seen. */
  readonly spareRequestsPerS: number | null
  /** Time until arrivals exceed the capacity at their present trend, s. null: beyond an hour, or they do not rise. */
  readonly exhaustionS: number | null
}

/** Minutes of the last hour in which the capacity of a pool was compared with the requests that came. */
export interface CapacityError {
  /** Compared minutes: those with requests. */
  readonly minutes: number
  /** Minutes in which requests were refused or late, though their rate was within the stated capacity. */
  readonly overstated: number
  /** Minutes in which none was, though their rate exceeded the stated capacity. */
  readonly understated: number
}

/** One entry for each role that serves requests. */
export type PoolCapacity = readonly RoleCapacity[]
