/** Grace period after an eviction, as a share of the lease. Live gateways renew every third of a lease. */
const GRACE_SHARE = 0.5

/** Maximum age of a snapshot's booking with grace, in leases. */
const GRACE_LEASES = 3

/** Returns when a booking of a snapshot expires unless it is renewed, ms since the epoch. */
export function lapseAfterEviction(seenAt: number, leaseMs: number, now: number): number {
  const graceMs = now - seenAt <= GRACE_LEASES * leaseMs ? leaseMs * GRACE_SHARE : 0
  return Math.max(seenAt + leaseMs, now + graceMs)
}
