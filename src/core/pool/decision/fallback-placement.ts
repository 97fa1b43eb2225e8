import type { Admission } from '../../contract/admission.ts'
import type { Placement } from '../../contract/placement.ts'
import type { EngineSpec } from '../../contract/pool-config.ts'
import type { PoolDigest } from '../../contract/pool-digest.ts'
import { serves } from './eligibility.ts'
import { supportsRole } from './roles.ts'
import { affinityKey } from '../../routing/affinity-keys.ts'
import { SESSION_BOUND } from '../../routing/policies/session.ts'
import { rendezvous, withinBound } from '../../routing/rendezvous.ts'

const MAX_RUNNERS_UP = 4

/**
 * Chooses without the pool's state: rendezvous hash of the session or the first blocks, with bounded load from the
 * last digest. All gateways choose alike, so prompts find their caches.
 * @returns null if no engine serves the model
 */
export function fallbackPlacement(
  admission: Admission,
  engines: readonly Pick<EngineSpec, 'id' | 'role' | 'models' | 'weight' | 'isExternal'>[],
  digest: PoolDigest | null,
): Placement | null {
  // Contexts are known to the pool's state only.
  if (admission.beyondContextTokens !== undefined) return null
  const serving = engines.filter(
    (engine) => supportsRole(engine.role, 'whole') && serves(engine, admission) && !admission.avoid.includes(engine.id),
  )
  const own = serving.filter((engine) => engine.isExternal !== true)
  const able = own.length > 0 ? own : serving
  const known = new Map(digest?.engines.map((engine) => [engine.id, engine]))
  // The digest is stale: it may reorder engines, but not exclude all.
  const isUp = ({ id }: { readonly id: string }) => known.get(id)?.available ?? true
  const order = rendezvous(affinityKey(admission), able).map((engine) => ({
    ...engine,
    requests: known.get(engine.id)?.requests ?? 0,
  }))
  const bounded = [...withinBound(order.filter(isUp), SESSION_BOUND), ...order.filter((engine) => !isUp(engine))]
  const [first, ...others] = bounded.map(({ id }) => id)
  return first === undefined ? null : { kind: 'whole', engine: first, runnersUp: others.slice(0, MAX_RUNNERS_UP) }
}
