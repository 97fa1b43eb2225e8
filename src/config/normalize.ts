/**
 * Turns a document that passed the schema into a `Config`, and a configured pool into what the core and the origin
 * get.
 */
import type * as z from 'zod/mini'
import type {
  ClusterConfig,
  ClusterDocument,
  Config,
  ConfigDocument,
  EngineConfig,
  LmcacheReceiver,
  PoolDocument,
  PoolSettings,
  RegionalGateway,
  TtftConfig,
} from '../config.ts'
import type { EngineSpec, PoolConfig } from '../core/contract/contract.ts'
import type { StoreLimits } from '../core/reports/report-store.ts'
import { viaOf } from '../origin/via.ts'
import type { EngineTarget } from '../ports.ts'
import { isLoopback, SecretRef, snake, textRule } from './fields.ts'
import { pool as poolSchema } from './pool-schema.ts'
import { type Finding, type Path, valueAt } from './problem.ts'
import type { documentSchema } from './schema.ts'
import { decodes, defaultMode } from './validate.ts'

/** Variables from which secrets are read; values of other types are ignored. */
export type Env = Readonly<Record<string, unknown>>

/** Values of the runtime for keys that the document lacks. */
export interface ParseOptions {
  /** Version of a document without `version`: a modification time, which only grows. */
  readonly defaultVersion: number
  /** `observe_share` of pools without it. */
  readonly defaultObserveShare: number
  /** `limits.buffered_bytes` of a document without it, in bytes. Default: 256 MiB. */
  readonly defaultBufferedBytes?: number
  /** Environment whose standard variables (parse.ts) are defaults of the document. Absent: none. */
  readonly environment?: Env
  /** This process opens `listen` itself, so a loopback address is private. false on Workers. */
  readonly listens: boolean
  /**
   * Returns 64 hexadecimal digits, lower case. Without it, a key that is configured both as text and as its hash is not
   * detected as a duplicate.
   */
  readonly sha256?: (text: string) => string
}

/**
 * Reads the secrets of a document from the environment.
 * @param raw the document before the schema's transforms, whose keys name the paths of findings
 */
export function resolveSecrets(
  document: z.output<typeof documentSchema>,
  raw: unknown,
  env: Env,
): { readonly document: ConfigDocument; readonly found: readonly Finding[] } {
  const found: Finding[] = []
  return { document: resolved(document, [], { raw, env, found }) as ConfigDocument, found }
}

interface Resolution {
  readonly raw: unknown
  readonly env: Env
  readonly found: Finding[]
}

function resolved(value: unknown, path: Path, at: Resolution): unknown {
  if (value instanceof SecretRef) return secretOf(value, path, at)
  if (Array.isArray(value)) return value.map((item, index) => resolved(item, [...path, index], at))
  if (typeof value !== 'object' || value === null) return value
  const written = valueAt(at.raw, path)
  const hasKey = (key: string) => typeof written === 'object' && written !== null && Object.hasOwn(written, key)
  // Keys of records, such as header names, are unchanged; all others were snake_case.
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, resolved(item, [...path, hasKey(key) ? key : snake(key)], at)]),
  )
}

function secretOf({ value, pattern }: SecretRef, path: Path, { env, found }: Resolution): string {
  if (typeof value === 'string') return value
  const read = env[value.env]
  if (typeof read === 'string' && pattern.test(read)) return read
  const fault =
    typeof read === 'string' && read !== ''
      ? `whose value is not ${textRule(pattern)}`
      : 'which is not set in the environment'
  found.push({ path: [...path, 'env'], rule: `names ${value.env}, ${fault}` })
  return ''
}

const DEFAULT_BUFFERED_BYTES = 256 * 1024 * 1024

/** Fills in the defaults that depend on the runtime or on other keys. */
export function toConfig(document: ConfigDocument, options: ParseOptions): Config {
  const { limits, listen } = document
  const clusters = document.clusters.map((cluster) => toCluster(cluster, options))
  return {
    ...document,
    version: document.version ?? options.defaultVersion,
    loopback: options.listens && isLoopback(listen.host),
    clusters,
    via: viaOf(clusters),
    limits: {
      ...limits,
      bufferedBytes:
        limits.bufferedBytes ?? Math.max(options.defaultBufferedBytes ?? DEFAULT_BUFFERED_BYTES, limits.bodyBytes),
    },
  }
}

function toCluster(cluster: ClusterDocument, options: ParseOptions): ClusterConfig {
  const { id, gateway } = cluster
  const pools = gateway === null ? (cluster.pools ?? []) : poolsOf(id, gateway)
  return { ...cluster, pools: pools.map((pool) => toPool(pool, options)) }
}

/**
 * One pool per model of a gateway. It has the defaults of a pool, except that an edge keeps no prefix index for a
 * region.
 */
function poolsOf(name: string, { url, digestIntervalMs, models, ...gateway }: RegionalGateway): PoolDocument[] {
  const written = poolSchema.safeParse({
    model: name,
    policy: 'least_loaded',
    index_entries: 1000,
    stats_interval_ms: digestIntervalMs,
    engines: [{ id: name, url }],
  })
  const bare = resolved(written.data, [], { raw: {}, env: {}, found: [] }) as PoolDocument
  const { key, headers, binding, maxInFlight } = gateway
  const engines = [{ ...bare.engines[0]!, key, headers, binding, maxInFlight }]
  return models.map((model) => ({ ...bare, ...model, engines }))
}

function toPool(pool: PoolDocument, options: ParseOptions): PoolSettings {
  const { split, engines } = pool
  return {
    ...pool,
    observeShare: pool.observeShare ?? options.defaultObserveShare,
    split: {
      ...split,
      mode: split.mode ?? defaultMode(engines),
      lmcache: { ...split.lmcache, receivers: receiversOf(split.lmcache, engines) },
    },
  }
}

/** `decoder` is the receiver of the only decode engine; `crossCheck` rejects it if there are several. */
function receiversOf(
  { decoder, decoders }: PoolDocument['split']['lmcache'],
  engines: readonly EngineConfig[],
): Readonly<Record<string, LmcacheReceiver>> {
  if (decoder === null) return decoders ?? {}
  return Object.fromEntries(engines.filter(decodes).map(({ id }) => [id, decoder]))
}

/** Pool as its ClusterState gets it: without addresses, secrets and settings of the edge. */
export function toPoolConfig(cluster: ClusterConfig, pool: PoolSettings): PoolConfig {
  const { model, split, engines, ...rest } = pool
  const {
    aliases: _aliases,
    adapters: _adapters,
    tokenizer: _tokenizer,
    lmcache: _lmcache,
    limits: _limits,
    discoverIntervalMs: _discoverIntervalMs,
    observeShare: _observeShare,
    session: _session,
    classPriority: _classPriority,
    shards: _shards,
    ...core
  } = rest
  const { mode, thresholdTokens, fallback } = split
  return {
    ...core,
    cluster: cluster.id,
    pool: model,
    split: { mode, thresholdTokens, fallback },
    engines: engines.map((engine) =>
      cluster.gateway === null ? toEngineSpec(engine) : { ...toEngineSpec(engine), isGateway: true },
    ),
  }
}

/** A list of the keys to copy, so that a new key with a secret stays out of the core. */
function toEngineSpec(engine: EngineConfig): EngineSpec {
  const { id, role, models, labels, weight, maxInFlight, prefixCaching, cacheBlocks, rttMs, profile, lmcacheInstance } =
    engine
  const spec = { id, role, models, labels, weight, maxInFlight, cacheBlocks, rttMs, profile, lmcacheInstance }
  if (engine.kind !== 'external') return { ...spec, prefixCaching }
  return { ...spec, prefixCaching: 'off', isExternal: true }
}

/** Base URL and headers of each engine, by engine id. */
export function toTargets(
  pool: PoolSettings,
  { gateway }: Pick<ClusterConfig, 'gateway'> = { gateway: null },
): ReadonlyMap<string, EngineTarget> {
  const more = gateway === null ? {} : { isGateway: true }
  return new Map(pool.engines.map((engine) => [engine.id, { ...toTarget(engine, pool.model), ...more }]))
}

function toTarget(engine: EngineConfig, poolModel: string): EngineTarget {
  const headers = Object.entries(engine.headers).flatMap(([name, value]) => [name.toLowerCase(), value])
  if (engine.key !== null) headers.push('authorization', `Bearer ${engine.key}`)
  const external = engine.kind === 'external' ? { external: { model: engine.providerModel ?? poolModel } } : {}
  return { id: engine.id, url: engine.url, headers, binding: engine.binding, ...external }
}

/** Limits of the report store. */
export const toStoreLimits = ({ ttlS, maxRequests, maxBytes }: TtftConfig): StoreLimits => ({
  ttlMs: ttlS * 1000,
  maxRequests,
  maxBytes,
})
