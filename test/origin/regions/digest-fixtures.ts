/** Digests of regions and of clusters, with changes. */
import type { PoolDigest } from '../../../src/core/contract/pool-digest.ts'
import { type RegionDigest, DIGEST_VERSION } from '../../../src/core/contract/region-digest.ts'
import { packFilter } from '../../../src/core/prefix-index/prefix-filter.ts'

export const costModel = { fixedS: 0.01, perTokenS: 1e-4, perPairS: 0 }
const engineEstimate = { waitS: 0, costModel }

export const regionDigest = (changes: Partial<RegionDigest> = {}): RegionDigest => ({
  version: DIGEST_VERSION,
  cluster: 'here',
  pool: 'm',
  configVersion: 1,
  engines: 2,
  requests: 0,
  queued: 0,
  confidence: 1,
  soonest: engineEstimate,
  usual: engineEstimate,
  prefixes: packFilter(new Uint32Array(0)),
  ...changes,
})

/** Digest of a cluster without engines. */
export const digest: PoolDigest = {
  version: 1,
  cluster: 'c',
  pool: 'm',
  configVersion: 1,
  seq: 1,
  epoch: 'e',
  at: 1,
  bookings: 0,
  engines: [],
}
