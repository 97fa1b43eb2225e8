/** Turns a document that passed the schema into a `Config`. */
import type {
  ClusterConfig,
  ClusterDocument,
  Config,
  ConfigDocument,
  EngineConfig,
  KeyConfig,
  KeyDocument,
  LmcacheReceiver,
  PoolDocument,
  PoolSettings,
  RegionalGateway,
  TtftConfig,
} from '../config.ts'
import type { StoreLimits } from '../core/reports/report-store.ts'
import { isLoopback } from './address.ts'
import { adapterLoadingOf, adapterNames } from './adapters.ts'
import type { ParseOptions } from './parse-options.ts'
import { pool as poolSchema } from './pool-schema.ts'
import { resolveValue } from './resolve-secrets.ts'
import { canDecode, defaultMode } from './split-roles.ts'
import { viaName } from './via-name.ts'

const DEFAULT_BUFFERED_BYTES = 256 * 1024 * 1024

/** Fills in the defaults that depend on the runtime or on other keys. */
export function toConfig(document: ConfigDocument, options: ParseOptions): Config {
  const { limits, listen } = document
  const clusters = document.clusters.map((cluster) => toCluster(cluster, options))
  return {
    ...document,
    version: document.version ?? options.defaultVersion,
    keys: document.keys?.map(toKey) ?? null,
    loopback: options.listens && isLoopback(listen.host),
    clusters,
    via: viaName(clusters),
    limits: {
      ...limits,
      bufferedBytes:
        limits.bufferedBytes ?? Math.max(options.defaultBufferedBytes ?? DEFAULT_BUFFERED_BYTES, limits.bodyBytes),
    },
  }
}

/** `checkKeyForms` rejects a key without any secret. */
function toKey({ secret, expires, secrets, ...key }: KeyDocument): KeyConfig {
  return { ...key, secrets: secrets ?? (secret === null ? [] : [{ secret, from: null, expires }]) }
}

function toCluster(cluster: ClusterDocument, options: ParseOptions): ClusterConfig {
  const { id, gateway } = cluster
  const pools = gateway === null ? (cluster.pools ?? []) : gatewayPools(id, gateway)
  return { ...cluster, pools: pools.map((pool) => toPool(pool, options)) }
}

/**
 * One pool per model of a gateway. It has the defaults of a pool, except that an edge keeps no prefix index for a
 * region.
 */
function gatewayPools(name: string, { url, digestIntervalMs, models, ...gateway }: RegionalGateway): PoolDocument[] {
  const written = poolSchema.safeParse({
    model: name,
    policy: 'least_loaded',
    index_entries: 1000,
    stats_interval_ms: digestIntervalMs,
    engines: [{ id: name, url }],
  })
  const defaults = resolveValue(written.data, [], { raw: {}, env: {}, findings: [] }) as PoolDocument
  const { key, headers, binding, maxInFlight } = gateway
  const engines = [{ ...defaults.engines[0]!, key, headers, binding, maxInFlight }]
  return models.map((model) => ({ ...defaults, ...model, engines }))
}

function toPool(pool: PoolDocument, options: ParseOptions): PoolSettings {
  const { split, engines, session, adapters } = pool
  return {
    ...pool,
    adapters: adapterNames(adapters),
    reportsAdapters: adapters === 'auto',
    adapterLoading: adapterLoadingOf(adapters),
    observeShare: pool.observeShare ?? options.defaultObserveShare,
    session: { ...session, header: [session.header].flat(), body: [session.body].flat() },
    split: {
      ...split,
      mode: split.mode ?? defaultMode(engines),
      lmcache: { ...split.lmcache, receivers: toReceivers(split.lmcache, engines) },
    },
  }
}

/** `decoder` is the receiver of the only decode engine; `crossCheck` rejects it if there are several. */
function toReceivers(
  { decoder, decoders }: PoolDocument['split']['lmcache'],
  engines: readonly EngineConfig[],
): Readonly<Record<string, LmcacheReceiver>> {
  if (decoder === null) return decoders ?? {}
  return Object.fromEntries(engines.filter(canDecode).map(({ id }) => [id, decoder]))
}

/** Limits of the report store. */
export const toStoreLimits = ({ ttlS, maxRequests, maxBytes }: TtftConfig): StoreLimits => ({
  ttlMs: ttlS * 1000,
  maxRequests,
  maxBytes,
})
