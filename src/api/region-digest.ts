/** `GET /v1/firstlight/digest?model=NAME`: digest for a gateway in front of this one that chooses among regions. */
import type { RegionDigest } from '../core/contract/region-digest.ts'
import { Failure } from '../failure.ts'
import { poolOf, type PoolRoute } from '../origin/pool-route.ts'
import { toSnakeCase } from '../snake-case.ts'
import type { Config } from '../config.ts'
import type { DigestCache } from '../origin/digests/digest-cache.ts'
import type { Ports } from '../ports.ts'
import type { Caller } from './auth/caller.ts'
import type { GatewayStatus } from './gateway-status.ts'
import type { ModelRegistry } from './model-registry.ts'
import { jsonResponse } from './json-response.ts'
import type { RequestContext } from './request-context.ts'

export interface RegionDigestParts {
  readonly config: Pick<Config, 'via'>
  readonly ports: Pick<Ports, 'pool' | 'log'>
  readonly status: Pick<GatewayStatus, 'draining'>
  readonly models: Pick<ModelRegistry, 'offer'>
  readonly digests: Pick<DigestCache, 'regionDigests'>
  /** Fingerprint of how a pool divides prompts into blocks. null: not at all. */
  readonly fingerprintOf: (route: PoolRoute) => number | null
}

/** Needs a key with `edge: true` if there are keys. */
export async function regionDigest(
  parts: RegionDigestParts,
  incoming: RequestContext,
  caller: Caller,
): Promise<Response> {
  if (!caller.edge)
    throw new Failure(
      'forbidden',
      'This key may not read region digests. Set `edge: true` on the keys of other Firstlight gateways.',
    )
  const model = new URLSearchParams(incoming.query).get('model')
  if (model === null) throw new Failure('bad_value', 'The query parameter `model` is required.', { param: 'model' })
  const { routes } = parts.models.offer(model, caller)
  // The fingerprint applies to all clusters, so filters with another block division are left out.
  const fingerprint = parts.fingerprintOf(routes[0]!)
  const all = await Promise.all(routes.map((route) => regionDigestsOf(parts, incoming, { route, fingerprint })))
  const regionDigests = all.flat().map((one) => ({ ...one, via: [...(one.via ?? []), parts.config.via] }))
  return jsonResponse(
    incoming,
    toSnakeCase({
      cut: fingerprint,
      regionDigests: parts.status.draining ? regionDigests.map(withoutEngines) : regionDigests,
    }),
  )
}

/** An unreachable cluster counts as unavailable; the others are reported. */
async function regionDigestsOf(
  { ports, digests, fingerprintOf }: RegionDigestParts,
  incoming: RequestContext,
  { route, fingerprint }: { readonly route: PoolRoute; readonly fingerprint: number | null },
): Promise<readonly RegionDigest[]> {
  const { cluster, pool } = route
  if (cluster.gateway !== null) return digests.regionDigests(route, incoming.scope)
  try {
    const found = await poolOf(ports, route).region?.digest()
    if (found === undefined) return []
    return [fingerprintOf(route) === fingerprint ? found : { ...found, prefixes: '' }]
  } catch (error) {
    ports.log.warn('region_digest_failed', { cluster: cluster.id, pool: pool.model, error })
    return []
  }
}

/** The digest of a draining gateway: no engine is available. */
const withoutEngines = (one: RegionDigest): RegionDigest => ({ ...one, engines: 0, soonest: null, usual: null })
