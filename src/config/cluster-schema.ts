/** Schema of a cluster: pools of engines, or a gateway in front of them. */
import * as z from 'zod/mini'
import { engineShape } from './engine-schema.ts'
import { describe, id, int, milliseconds, modelName, number, oneOf, strict, withDefault } from './fields.ts'
import { pool, poolShape } from './pool-schema.ts'
import { secret } from './secret-fields.ts'
import { baseUrl } from './url-fields.ts'

/** Settings of a pool that an edge decides itself, for a model behind another gateway. */
const regionalModel = strict({
  model: poolShape.model,
  aliases: poolShape.aliases,
  adapters: describe('LoRA adapters of the model.', z.prefault(z.array(modelName), [])),
  response_model: poolShape.response_model,
  block_tokens: describe(
    'Block size of the region’s pool. It must be equal, or cached prefixes of the region are not recognised.',
    poolShape.block_tokens,
  ),
  tokenizer: describe(
    'Tokenizer of the region’s pool. Absent: tokens are estimated from bytes by a learned ratio.',
    poolShape.tokenizer,
  ),
  limits: poolShape.limits,
  observe_share: poolShape.observe_share,
  session: poolShape.session,
  lease_ms: poolShape.lease_ms,
  retry: poolShape.retry,
  circuit: poolShape.circuit,
  mirror: poolShape.mirror,
})

const regional = strict({
  url: describe('Base URL of the gateway, without `/v1`.', baseUrl),
  key: describe('Bearer token for that gateway. Its configuration has the key with `edge: true`.', z.optional(secret)),
  admin_key: describe(
    'Admin key of that gateway. With it, the fleet view here has the engines of the region, and operators drain ' +
      'them here (docs/regions.md). Absent: neither.',
    z.optional(secret),
  ),
  headers: engineShape.headers,
  binding: describe('Workers only: binding to fetch through, for gateways in a private network.', engineShape.binding),
  max_in_flight: describe(
    'Maximum number of concurrent requests to the gateway. Absent: no limit.',
    engineShape.max_in_flight,
  ),
  rtt_ms: describe('Network round trip to the gateway. Absent: measured.', z.optional(number(0, 10_000))),
  digest_interval_ms: describe(
    'Maximum age of the region’s digest. An older one is refreshed in the background.',
    withDefault(milliseconds(100), 2_000),
  ),
  models: describe(
    'Models that the gateway serves. Absent: those of the `pools` of the same cluster.',
    z.array(regionalModel).check(z.minLength(1)),
  ),
})

export const cluster = strict({
  id: describe('Name of the cluster.', id),
  region: describe(
    'Location of the cluster: `eu-west`. Keys can be bound to regions, and regions preferred (docs/residency.md).',
    z.optional(id),
  ),
  location_hint: describe(
    'Workers only: location hint for the cluster’s Durable Objects.',
    z.optional(oneOf(['wnam', 'enam', 'sam', 'weur', 'eeur', 'apac', 'oc', 'afr', 'me'])),
  ),
  jurisdiction: describe(
    'Workers only: jurisdiction in which the cluster’s Durable Objects run and store their data. Raise ' +
      '`generation` with a change: objects of another jurisdiction start without state.',
    z.optional(oneOf(['eu', 'us', 'fedramp', 'fedramp-high'])),
  ),
  generation: describe(
    'Part of the names of the cluster’s Durable Objects. Raise it to move them.',
    withDefault(int(1, 1_000_000), 1),
  ),
  weight: describe('Share of traffic relative to other clusters with the same model.', withDefault(number(0, 1000), 1)),
  pools: describe(
    'Pools of the cluster, one per base model. Absent: the cluster is behind a `gateway`.',
    z.optional(z.array(pool).check(z.minLength(1))),
  ),
  gateway: describe(
    'Another Firstlight next to the engines. It chooses among them, and this gateway chooses among clusters ' +
      '(docs/regions.md). With `pools`, the document is that of the edge and of the region (docs/regions.md).',
    z.optional(regional),
  ),
  settings: describe(
    'Keys of the document for the region alone, such as `listen` or `replicas`, in a cluster with `pools` and a ' +
      '`gateway`.',
    z.optional(z.record(z.string(), z.unknown())),
  ),
})
