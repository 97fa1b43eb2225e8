import type { Admission } from '../../core/contract/admission.ts'
import type { Placement } from '../../core/contract/placement.ts'
import type { PoolDigest } from '../../core/contract/pool-digest.ts'
import type { RequestScope } from '../../ports/request-scope.ts'
import type { Exchange } from '../exchange.ts'
import type { Pass } from '../placement/placement-passes.ts'
import type { PoolRoute } from '../pool-route.ts'
import type { InFlightPrompt } from '../regions/region-estimator.ts'

/** Digests of clusters, read without a call. */
export interface PoolDigests {
  /** First pass over the pools, in the order in which they are tried. */
  firstPass(exchange: Exchange): Pass
  /** Last digest of a pool. null: none. */
  latest(route: PoolRoute): PoolDigest | null
  /** As `latest`. Requests a newer one in the background if it is old. */
  current(route: PoolRoute, scope: Pick<RequestScope, 'background'>): PoolDigest | null
  /** Records a prompt that was sent there, for later choices. null: no estimate exists. */
  sent(route: PoolRoute, prompt: Pick<Admission, 'promptTokens' | 'blocks' | 'tokenSource'>): InFlightPrompt | null
  /**
   * Chooses without the object, by rendezvous hashing with bounded load. null: no engine is left.
   * @param isLate the object is slow, not unreachable, so its cluster is not avoided
   */
  fallback(admission: Admission, route: PoolRoute, isLate?: boolean): Placement | null
}
