/** From the valid document to `Config`: snake_case to camelCase, secrets resolved, absent to null. */
import type {
  ClusterConfig,
  Config,
  EngineConfig,
  KeyConfig,
  KvEventsConfig,
  LmcacheConfig,
  LmcacheReceiver,
  PoolSettings,
  Sha256,
} from '../config.ts'
import type { PolicyConfig, EngineSpec, PoolConfig } from '../core/contract/contract.ts'
import type { OptionSpec } from '../core/routing/options.ts'
import { viaOf } from '../origin/via.ts'
import { camel, type PolicyDocument } from './policies.ts'
import { type Path, renderPath, type Finding } from './problem.ts'
import { decodes, defaultMode } from './validate.ts'
import type { EngineDocument, PoolDocument } from './pool-schema.ts'
import type { ClusterDocument, ConfigDocument } from './schema.ts'
import { BEARER_TEXT, HEADER_TEXT, isLoopback, parseAddress, type Secret, textRule } from './fields.ts'
import type { EngineTarget } from '../ports.ts'

/* What the core and the pipe get to know of a configured pool. */

/** The pool as its ClusterState needs it: without addresses and secrets. */
export function toPoolConfig(cluster: ClusterConfig, pool: PoolSettings): PoolConfig {
  const { mode, thresholdTokens, fallback } = pool.split
  return {
    cluster: cluster.id,
    pool: pool.model,
    blockTokens: pool.blockTokens,
    policy: pool.policy,
    shadow: pool.shadow,
    split: { mode, thresholdTokens, fallback },
    leaseMs: pool.leaseMs,
    retry: pool.retry,
    circuit: pool.circuit,
    statsIntervalMs: pool.statsIntervalMs,
    indexEntries: pool.indexEntries,
    engines: pool.engines.map((engine) =>
      cluster.gateway === undefined ? toEngineSpec(engine) : { ...toEngineSpec(engine), isGateway: true },
    ),
  }
}

function toEngineSpec(engine: EngineConfig): EngineSpec {
  const { id, role, models, labels, weight, maxInFlight, prefixCaching, cacheBlocks, rttMs, profile, lmcacheInstance } =
    engine
  return { id, role, models, labels, weight, maxInFlight, prefixCaching, cacheBlocks, rttMs, profile, lmcacheInstance }
}

/** Engine id → where it is and what it wants to be told. */
export function toTargets(
  pool: PoolSettings,
  { gateway }: Pick<ClusterConfig, 'gateway'> = {},
): ReadonlyMap<string, EngineTarget> {
  const more = gateway === undefined ? {} : { isGateway: true }
  return new Map(pool.engines.map((engine) => [engine.id, { ...toTarget(engine), ...more }]))
}

function toTarget(engine: EngineConfig): EngineTarget {
  const headers = Object.entries(engine.headers).flatMap(([name, value]) => [name.toLowerCase(), value])
  if (engine.key !== null) headers.push('authorization', `Bearer ${engine.key}`)
  return { id: engine.id, url: engine.url, headers, binding: engine.binding }
}

export type Env = Readonly<Record<string, unknown>>

/** What the runtime decides where the document is silent. */
export interface ParseOptions {
  /** Version of a document that names none: a time of change, so that it grows. */
  readonly defaultVersion: number
  /** `observe_share` of pools that name none. */
  readonly defaultObserveShare: number
  /** `limits.buffered_bytes` of a document without one. Absent: 256 MiB. */
  readonly defaultBufferedBytes?: number
  /** This process opens `listen` itself, so loopback means private. Workers never do. */
  readonly listens: boolean
  /** 64 hexadecimal digits, lower case. Absent, or the text itself: a key that is given both plainly and as its hash is not noticed. */
  readonly sha256?: (text: string) => string
}

const DEFAULT_BUFFERED_BYTES = 256 * 1024 * 1024

/** Maps a document that passed the schema, and collects what its secrets lack. */
export class ConfigNormalizer {
  readonly findings: Finding[] = []
  readonly #env: Env
  readonly #options: ParseOptions

  constructor(env: Env, options: ParseOptions) {
    this.#env = env
    this.#options = options
  }

  config(document: ConfigDocument): Config {
    const { limits, ttft } = document
    const listen = parseAddress(document.listen)!
    const admin =
      document.admin === undefined ? null : { secret: this.#secret(document.admin.secret, ['admin', 'secret']) }
    const bridge =
      document.bridge === undefined ? null : { secret: this.#secret(document.bridge.secret, ['bridge', 'secret']) }
    const clusters = document.clusters.map((cluster, index) => this.#cluster(cluster, ['clusters', index]))
    return {
      version: document.version ?? this.#options.defaultVersion,
      listen,
      threads: document.workers,
      keys: document.keys === undefined ? null : this.#keys(document.keys, { admin, bridge }),
      open: document.open,
      loopback: this.#options.listens && isLoopback(listen.host),
      admin,
      bridge,
      cors: document.cors === undefined ? null : { origins: document.cors.origins, maxAgeS: document.cors.max_age_s },
      clusters,
      via: viaOf(clusters),
      limits: {
        bodyBytes: limits.body_bytes,
        bufferedBytes:
          limits.buffered_bytes ??
          Math.max(this.#options.defaultBufferedBytes ?? DEFAULT_BUFFERED_BYTES, limits.body_bytes),
        maxJsonCost: limits.max_json_cost,
        heartbeatMs: limits.heartbeat_ms,
        drainMs: limits.drain_ms,
        writeMs: limits.write_ms,
        connections: limits.connections ?? null,
        responseIds: limits.response_ids,
      },
      log: {
        level: document.log.level,
        statsIntervalMs: document.log.stats_interval_s * 1000,
        routing: document.log.routing,
      },
      ttft: {
        enabled: ttft.enabled,
        listen: ttft.listen === undefined ? null : parseAddress(ttft.listen),
        token: this.#optionalSecret(ttft.token, ['ttft', 'token']),
        ttlMs: ttft.ttl_s * 1000,
        maxRequests: ttft.max_requests,
        maxBytes: ttft.max_bytes,
        log: ttft.log,
        comment: ttft.comment,
        relay:
          ttft.relay === undefined
            ? null
            : {
                url: withoutSlash(ttft.relay.url),
                token: this.#optionalSecret(ttft.relay.token, ['ttft', 'relay', 'token']),
              },
      },
      metrics: { key: this.#optionalSecret(document.metrics.key, ['metrics', 'key']) },
      traces: {
        endpoint: document.traces.endpoint === undefined ? null : withoutSlash(document.traces.endpoint),
        headers: this.#headers(document.traces.headers, ['traces']),
        sample: document.traces.sample,
        service: document.traces.service,
      },
      record: this.#record(document.record),
      replicas: this.#replicas(document.replicas),
    }
  }

  #replicas(replicas: ConfigDocument['replicas']): Config['replicas'] {
    if (replicas === undefined) return null
    return {
      listen: parseAddress(replicas.listen)!,
      peers: replicas.peers.map((peer) => parseAddress(peer)!),
      secret: this.#optionalSecret(replicas.secret, ['replicas', 'secret']),
    }
  }

  #record(record: ConfigDocument['record']): Config['record'] {
    // Workers refuse it, and their build need not read it.
    if (record === undefined) return null
    return {
      file: record.file,
      maxBytes: record.max_bytes,
      files: record.files,
      salt: this.#optionalSecret(record.salt, ['record', 'salt'], HEADER_TEXT),
    }
  }

  /** A client's key opens nothing else, and one client's only: `others` have secrets of their own. */
  #keys(
    keys: NonNullable<ConfigDocument['keys']>,
    others: Readonly<Record<string, { readonly secret: string } | null>>,
  ): KeyConfig[] {
    const hashOf = this.#options.sha256 ?? ((text) => text)
    const owners = new Map(Object.entries(others).map(([name, one]) => [one && hashOf(one.secret), name]))
    return keys.map((key, index) => {
      const at: Path = ['keys', index]
      const { sha256 } = key.secret as Partial<Sha256>
      const secret = sha256 ?? this.#secret(key.secret as Secret, [...at, 'secret'])
      const hash = sha256 ?? hashOf(secret)
      const owner = owners.get(hash)
      // '' was not resolved and has been reported.
      if (owner !== undefined && secret !== '')
        this.findings.push({ path: [...at, 'secret'], rule: `is the secret of ${owner} too` })
      else owners.set(hash, `keys[${index}]`)
      return {
        name: key.name,
        secret: sha256 === undefined ? secret : { sha256 },
        models: key.models ?? null,
        allowOverrides: key.allow_overrides,
        edge: key.edge,
        cacheSalt: this.#optionalSecret(key.cache_salt, [...at, 'cache_salt'], HEADER_TEXT),
        priority: key.priority ?? null,
      }
    })
  }

  #cluster(cluster: ClusterDocument, at: Path): ClusterConfig {
    return {
      id: cluster.id,
      region: cluster.region ?? null,
      locationHint: cluster.location_hint ?? null,
      generation: cluster.generation,
      weight: cluster.weight,
      ...(cluster.gateway === undefined
        ? {}
        : { gateway: { rttMs: cluster.gateway.rtt_ms ?? null, digestIntervalMs: cluster.gateway.digest_interval_ms } }),
      // Each model of a gateway has it for its engine: what is wrong with it is said of it, by the first of them.
      pools: cluster.pools.map((pool, index) =>
        cluster.gateway === undefined
          ? this.#pool(pool, [...at, 'pools', index])
          : this.#pool(pool, [...at, 'gateway', 'models', index], [...at, 'gateway']),
      ),
    }
  }

  #pool(pool: PoolDocument, at: Path, gatewayAt: Path | null = null): PoolSettings {
    return {
      model: pool.model,
      aliases: pool.aliases,
      adapters: pool.adapters,
      policy: readPolicy(pool.policy),
      shadow: pool.shadow === undefined ? null : readPolicy(pool.shadow),
      blockTokens: pool.block_tokens,
      tokenizer: pool.tokenizer ?? null,
      split: readSplit(pool),
      lmcache: pool.lmcache === undefined ? null : this.#lmcache(pool.lmcache, [...at, 'lmcache']),
      limits: {
        connectMs: pool.limits.connect_ms,
        firstByteMs: pool.limits.first_byte_ms,
        answerMs: pool.limits.answer_ms,
        prefillMs: pool.limits.prefill_ms,
        idleMs: pool.limits.idle_ms,
        nativeMs: pool.limits.native_ms,
      },
      statsIntervalMs: pool.stats_interval_ms,
      discoverIntervalMs: pool.discover_interval_ms,
      observeShare: pool.observe_share ?? this.#options.defaultObserveShare,
      session: { header: pool.session.header.toLowerCase(), body: pool.session.body },
      leaseMs: pool.lease_ms,
      retry: { share: pool.retry.share, minPerS: pool.retry.min_per_s },
      circuit: {
        failures: pool.circuit.failures,
        openMs: pool.circuit.open_ms,
        maxEjectedShare: pool.circuit.max_ejected_share,
        panicShare: pool.circuit.panic_share,
      },
      indexEntries: pool.index_entries,
      engines: pool.engines.map((engine, index) => this.#engine(engine, gatewayAt ?? [...at, 'engines', index])),
    }
  }

  #lmcache(lmcache: NonNullable<PoolDocument['lmcache']>, at: Path): LmcacheConfig {
    return {
      coordinator: lmcache.coordinator === undefined ? null : withoutSlash(lmcache.coordinator),
      controller: lmcache.controller === undefined ? null : withoutSlash(lmcache.controller),
      registry: lmcache.registry,
      budgetMs: lmcache.budget_ms,
      shared: lmcache.shared,
      headers: this.#headers(lmcache.headers, at),
      binding: lmcache.binding ?? null,
      model: lmcache.model ?? null,
      worldSize: lmcache.world_size ?? null,
      chunkTokens: lmcache.chunk_tokens,
      token: this.#optionalSecret(lmcache.token, [...at, 'token']),
    }
  }

  #headers(headers: Readonly<Record<string, Secret>>, at: Path): Record<string, string> {
    return Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [
        name,
        this.#secret(value, [...at, 'headers', name], HEADER_TEXT),
      ]),
    )
  }

  #engine(engine: EngineDocument, at: Path): EngineConfig {
    return {
      id: engine.id,
      url: withoutSlash(engine.url),
      discover: engine.discover ?? null,
      role: engine.role,
      models: engine.models ?? null,
      labels: engine.labels,
      weight: engine.weight,
      key: this.#optionalSecret(engine.key, [...at, 'key']),
      headers: this.#headers(engine.headers, at),
      binding: engine.binding ?? null,
      maxInFlight: engine.max_in_flight ?? null,
      prefixCaching: engine.prefix_caching,
      cacheBlocks: engine.cache_blocks ?? null,
      rttMs: engine.rtt_ms,
      profile: engine.profile ?? null,
      lmcacheInstance: engine.lmcache_instance ?? null,
      kvEvents: readKvEvents(engine.kv_events),
    }
  }

  #optionalSecret(secret: Secret | undefined, at: Path, pattern = BEARER_TEXT): string | null {
    return secret === undefined ? null : this.#secret(secret, at, pattern)
  }

  #secret(secret: Secret, at: Path, pattern = BEARER_TEXT): string {
    if (typeof secret === 'string') return secret
    const value = this.#env[secret.env]
    if (typeof value === 'string' && pattern.test(value)) return value
    const fault =
      typeof value === 'string' && value !== ''
        ? `whose value is not ${textRule(pattern)}`
        : 'which is not set in the environment'
    const path = [...at, 'env']
    if (!this.findings.some((one) => renderPath(one.path) === renderPath(path)))
      this.findings.push({ path, rule: `names ${secret.env}, ${fault}` })
    return ''
  }
}

function readPolicy(policy: PolicyDocument): PolicyConfig {
  if (typeof policy === 'string') return { name: policy, options: {} }
  const { name, ...given } = policy
  const options: Record<string, OptionSpec['default']> = {}
  for (const [key, value] of Object.entries(given)) {
    // The schema is made from a list, so only at run time is it known what it lets through.
    if (value !== undefined) options[camel(key)] = value as OptionSpec['default']
  }
  return { name, options }
}

function readSplit({ split, engines }: PoolDocument): PoolSettings['split'] {
  return {
    mode: split.mode ?? defaultMode(engines),
    thresholdTokens: split.threshold_tokens,
    connector: split.connector,
    fallback: split.fallback,
    estimate: split.estimate,
    responseField: split.response_field,
    lmcache: {
      receivers: receiversOf(split.lmcache, engines),
      readyUrl: split.lmcache.ready_url === undefined ? null : withoutSlash(split.lmcache.ready_url),
      readyMs: split.lmcache.ready_ms,
      chat: split.lmcache.chat,
    },
    encode: {
      concurrency: split.encode.concurrency,
      cachedItems: split.encode.cached_items,
      limitMs: split.encode.limit_ms,
    },
  }
}

/** One receiver for all is only ever that of the one decode engine: `rules.ts` sees to it. */
function receiversOf(
  { decoder, decoders }: PoolDocument['split']['lmcache'],
  engines: readonly EngineDocument[],
): Record<string, LmcacheReceiver> {
  const named =
    decoder === undefined
      ? Object.entries(decoders ?? {})
      : engines.filter(decodes).map(({ id }) => [id, decoder] as const)
  return Object.fromEntries(
    named.map(([id, { host, init_ports: initPorts, alloc_ports: allocPorts }]) => [
      id,
      { host, initPorts, allocPorts },
    ]),
  )
}

const readKvEvents = (given: EngineDocument['kv_events']): KvEventsConfig | null =>
  given === undefined
    ? null
    : { endpoint: given.endpoint, replayEndpoint: given.replay_endpoint ?? null, topic: given.topic ?? '' }

const withoutSlash = (url: string) => url.replace(/\/+$/, '')
