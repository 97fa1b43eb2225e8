import type { PoolDigest } from '../contract/pool-digest.ts'

/** Returns the digest of an object without configuration. */
export function emptyDigest(facts: Pick<PoolDigest, 'version' | 'epoch' | 'seq' | 'at'>): PoolDigest {
  return { ...facts, cluster: '', pool: '', configVersion: 0, bookings: 0, engines: [] }
}
