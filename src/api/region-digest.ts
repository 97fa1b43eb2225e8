/** `GET /v1/firstlight/digest?model=NAME`: digest for a gateway in front of this one that chooses among regions. */
import type { RegionDigest } from '../core/contract/region-digest.ts'
import { Failure } from '../failure.ts'
import type { PoolRoute } from '../origin/exchange.ts'
import type { GatewayContext } from './context.ts'
import { answerJson, type RequestContext } from './request-context.ts'
import type { PromptMeasurers } from './prompt-measurers.ts'
import { toSnakeCase } from '../config.ts'

/** Needs a key with `edge: true` if there are keys. */
export async function regionDigest(context: GatewayContext, incoming: RequestContext): Promise<Response> {
  const caller = await context.authenticator.caller(incoming.request.headers, false)
  if (!caller.edge)
    throw new Failure(
      'forbidden',
      'This key may not read what the gateway expects. If it is that of another Firstlight, its operator sets ' +
        '`edge: true` on it.',
    )
  incoming.logFields['tenant'] = caller.tenant
  const model = new URLSearchParams(incoming.query).get('model')
  if (model === null) throw new Failure('bad_value', 'Say which model: ?model=NAME.', { param: 'model' })
  const { routes } = context.catalog.offer(model, caller)
  // The fingerprint applies to all clusters, so filters with another block division are left out.
  const cut = context.fingerprintOf(routes[0]!)
  const all = await Promise.all(routes.map((route) => regionDigestsOf(context, incoming, { route, cut })))
  const regionDigests = all.flat().map((one) => ({ ...one, via: [...(one.via ?? []), context.config.via] }))
  return answerJson(
    incoming,
    toSnakeCase({ cut, regionDigests: context.draining ? regionDigests.map(closed) : regionDigests }),
  )
}

/** An unreachable cluster counts as unavailable; the others are reported. */
async function regionDigestsOf(
  { ports, digests, fingerprintOf }: GatewayContext,
  incoming: RequestContext,
  { route, cut }: { readonly route: PoolRoute; readonly cut: number | null },
): Promise<readonly RegionDigest[]> {
  const { cluster, pool } = route
  if (cluster.gateway !== null) return digests.regionDigests(route, incoming.scope)
  try {
    const found = await ports.cluster(cluster.id, pool.model).regionDigest()
    return [fingerprintOf(route) === cut ? found : { ...found, prefixes: '' }]
  } catch (error) {
    ports.log.warn('region_digest_failed', { cluster: cluster.id, pool: pool.model, error })
    return []
  }
}

/** The digest of a draining gateway: no engine is available. */
const closed = (one: RegionDigest): RegionDigest => ({ ...one, engines: 0, soonest: null, usual: null })

/** Any tokenizer divides so many words into blocks: each is at least a token, and about three bytes. */
const WORDS_PER_BLOCK_TOKEN = 3

/**
 * Fingerprint of how a pool's prompts are divided into blocks: the hash of a fixed text. Chained hashes combine the
 * vocabulary, the template, the block size and the gateway's own rules in one number.
 */
export function blockingFingerprints(measurers: PromptMeasurers): (route: PoolRoute) => number | null {
  const known = new WeakMap<PoolRoute['pool'], number | null>()
  return (route) => {
    const { pool } = route
    let cut = known.get(pool)
    if (cut === undefined) known.set(pool, (cut = markOf(measurers, route)))
    return cut
  }
}

function markOf(measurers: PromptMeasurers, route: PoolRoute): number | null {
  const content = Array.from({ length: route.pool.blockTokens * WORDS_PER_BLOCK_TOKEN }, (_, at) =>
    at.toString(36),
  ).join(' ')
  const body = { messages: [{ role: 'user', content }] }
  const { blocks } = measurers.measure(route, {
    endpoint: 'chat',
    body,
    bodyBytes: content.length,
    adapter: null,
    salts: [],
    tenant: null,
    withIds: false,
  })
  return blocks.at(-2) ?? null
}
