/** `GET /v1/firstlight/digest?model=NAME`: digest for a gateway in front of this one that chooses among regions. */
import type { RegionDigest } from '../core/contract/region-digest.ts'
import { Failure } from '../failure.ts'
import type { PoolRoute } from '../origin/exchange.ts'
import { toSnakeCase } from '../snake-case.ts'
import type { GatewayContext } from './context.ts'
import { jsonResponse } from './json-response.ts'
import type { RequestContext } from './request-context.ts'

/** Needs a key with `edge: true` if there are keys. */
export async function regionDigest(context: GatewayContext, incoming: RequestContext): Promise<Response> {
  const caller = await context.authenticator.caller(incoming.request.headers, false)
  if (!caller.edge)
    throw new Failure(
      'forbidden',
      'This key may not read region digests. Set `edge: true` on the keys of other Firstlight gateways.',
    )
  incoming.logFields['tenant'] = caller.tenant
  const model = new URLSearchParams(incoming.query).get('model')
  if (model === null) throw new Failure('bad_value', 'The query parameter `model` is required.', { param: 'model' })
  const { routes } = context.models.offer(model, caller)
  // The fingerprint applies to all clusters, so filters with another block division are left out.
  const fingerprint = context.fingerprintOf(routes[0]!)
  const all = await Promise.all(routes.map((route) => regionDigestsOf(context, incoming, { route, fingerprint })))
  const regionDigests = all.flat().map((one) => ({ ...one, via: [...(one.via ?? []), context.config.via] }))
  return jsonResponse(
    incoming,
    toSnakeCase({
      cut: fingerprint,
      regionDigests: context.draining ? regionDigests.map(withoutEngines) : regionDigests,
    }),
  )
}

/** An unreachable cluster counts as unavailable; the others are reported. */
async function regionDigestsOf(
  { ports, digests, fingerprintOf }: GatewayContext,
  incoming: RequestContext,
  { route, fingerprint }: { readonly route: PoolRoute; readonly fingerprint: number | null },
): Promise<readonly RegionDigest[]> {
  const { cluster, pool } = route
  if (cluster.gateway !== null) return digests.regionDigests(route, incoming.scope)
  try {
    const found = await ports.pool(cluster.id, pool.model).regionDigest()
    return [fingerprintOf(route) === fingerprint ? found : { ...found, prefixes: '' }]
  } catch (error) {
    ports.log.warn('region_digest_failed', { cluster: cluster.id, pool: pool.model, error })
    return []
  }
}

/** The digest of a draining gateway: no engine is available. */
const withoutEngines = (one: RegionDigest): RegionDigest => ({ ...one, engines: 0, soonest: null, usual: null })
