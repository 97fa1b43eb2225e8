/**
 * The configuration after validation: camelCase, defaults filled in, secrets resolved. `config/` is the one
 * place that knows the document's snake_case; after `parseConfig` (`config/parse.ts`) types are trusted.
 */
import type { CircuitConfig, PolicyConfig, Role, SplitConfig } from './core/contract/contract.ts'

export interface Config {
  /** Grows with every change; cluster objects adopt only newer ones. */
  readonly version: number
  /** Node only. */
  readonly listen: { readonly host: string; readonly port: number }
  /** Node only: I/O threads; 1: one thread does everything. */
  readonly threads: number | 'auto'
  /** null: none are configured. `open` and `loopback` say whether that means everybody or nobody. */
  readonly keys: readonly KeyConfig[] | null
  /** Was `open: true` said? */
  readonly open: boolean
  /** This process listens itself, and only this machine can reach it. false on Workers. */
  readonly loopback: boolean
  readonly admin: { readonly secret: string } | null
  /** What bridges of KV events show; null: the admin key. */
  readonly bridge: { readonly secret: string } | null
  /** null: no page of another origin may read an answer. */
  readonly cors: CorsConfig | null
  readonly clusters: readonly ClusterConfig[]
  /** What this deployment adds to `via`. */
  readonly via: string
  readonly limits: LimitsConfig
  readonly log: LogConfig
  readonly ttft: TtftConfig
  readonly metrics: MetricsConfig
  readonly traces: TracesConfig
  /** Node only: where traffic is written as a trace; null: nowhere. */
  readonly record: RecordConfig | null
  /** Node only: other gateways with books of the same engines; null: there are none. */
  readonly replicas: ReplicasConfig | null
}

export interface ReplicasConfig {
  /** Where the others read what this one books. */
  readonly listen: { readonly host: string; readonly port: number }
  /** Every address of each host is a replica, but this one's own. */
  readonly peers: readonly { readonly host: string; readonly port: number }[]
  /** What replicas show each other; null: nothing. */
  readonly secret: string | null
}

export interface KeyConfig {
  readonly name: string
  /** As it is, or its hash. */
  readonly secret: string | Sha256
  /** Model names and aliases the key may use; null: all. */
  readonly models: readonly string[] | null
  /** May requests set policy, weights and the like for themselves? */
  readonly allowOverrides: boolean
  /** It is another Firstlight's, which may read what is expected here. */
  readonly edge: boolean
  /** Set as the engine's `cache_salt` and mixed into our hashes, so tenants share no cache. null: shared. */
  readonly cacheSalt: string | null
  /** Set as the engine's `priority` in place of the client's; null: none is set. */
  readonly priority: number | null
}

export interface Sha256 {
  /** 64 hexadecimal digits, lower case. */
  readonly sha256: string
}

export interface CorsConfig {
  /** As browsers send them; or `*` alone: all. */
  readonly origins: readonly string[]
  readonly maxAgeS: number
}

export interface ClusterConfig {
  readonly id: string
  readonly region: string | null
  /** Cloudflare location hint of its objects. */
  readonly locationHint: string | null
  /** Part of the object's name: raise it to move the object. */
  readonly generation: number
  readonly weight: number
  /** Another Firstlight has the engines: the one engine of each pool stands for it. Absent: they are its own. */
  readonly gateway?: RegionalGateway
  readonly pools: readonly PoolSettings[]
}

/** What a cluster behind another gateway says besides what its pools do. */
export interface RegionalGateway {
  /** null: measured. */
  readonly rttMs: number | null
  /** What it expects is asked for when it is older than this. */
  readonly digestIntervalMs: number
}

/** One pool as configured. `PoolConfig` (core) is what its ClusterState gets. */
export interface PoolSettings {
  /** Base model: the name engines serve it under. */
  readonly model: string
  readonly aliases: readonly string[]
  /** Adapter names that map onto this pool. */
  readonly adapters: readonly string[]
  readonly policy: PolicyConfig
  readonly shadow: PolicyConfig | null
  readonly blockTokens: number
  /** Compiled vocabulary (path, or key on Workers); null: bytes with a learned ratio. */
  readonly tokenizer: string | null
  readonly split: SplitSettings
  readonly lmcache: LmcacheConfig | null
  readonly limits: PoolLimits
  readonly statsIntervalMs: number
  /** Node only: how often names of engines are looked up. */
  readonly discoverIntervalMs: number
  readonly observeShare: number
  readonly session: { readonly header: string; readonly body: string | null }
  readonly leaseMs: number
  readonly retry: { readonly share: number; readonly minPerS: number }
  readonly circuit: CircuitConfig
  readonly indexEntries: number
  readonly engines: readonly EngineConfig[]
}

/** Split serving as configured: what decides (core), and how the KV cache travels (edge). */
export interface SplitSettings extends SplitConfig {
  readonly connector: 'nixl' | 'lmcache' | 'response'
  /** How `threshold` counts a prompt: the gateway's own count, or a quarter of its characters. */
  readonly estimate: 'tokens' | 'chars4'
  /** `response`: field of the decode leg that carries the prefill's answer. */
  readonly responseField: string
  readonly lmcache: LmcacheSplit
  readonly encode: EncodeSettings
}

/** Connector `lmcache`. */
export interface LmcacheSplit {
  /** Decode engine's id → where prefill engines push its KV cache. Complete where the connector is in use. */
  readonly receivers: Readonly<Record<string, LmcacheReceiver>>
  /** Asked whether the cache has arrived; null: nobody is, the decode engine is trusted to wait. */
  readonly readyUrl: string | null
  readonly readyMs: number
  /** Are chats split too? */
  readonly chat: boolean
}

/** Ports in the order of the tensor-parallel ranks. */
export interface LmcacheReceiver {
  readonly host: string
  readonly initPorts: readonly number[]
  readonly allocPorts: readonly number[]
}

/** The stage that encodes images, sounds and videos. */
export interface EncodeSettings {
  /** Items of one request that are encoded at the same time. */
  readonly concurrency: number
  /** Items remembered as encoded, which are not sent again; 0: none. */
  readonly cachedItems: number
  readonly limitMs: number
}

export interface EngineConfig {
  readonly id: string
  readonly url: string
  /** It is the pattern of an engine for each address that the host of `url` has; null: it is one engine. Node only, and only until `withFound` (`config/discovered.ts`). */
  readonly discover: 'dns' | null
  readonly role: Role
  readonly models: readonly string[] | null
  readonly labels: Readonly<Record<string, string>>
  readonly weight: number
  /** Sent as `authorization: Bearer`. */
  readonly key: string | null
  readonly headers: Readonly<Record<string, string>>
  readonly binding: string | null
  readonly maxInFlight: number | null
  readonly prefixCaching: 'auto' | 'on' | 'off'
  readonly cacheBlocks: number | null
  readonly rttMs: number
  readonly profile: string | null
  readonly lmcacheInstance: string | null
  /** Where it publishes its KV events; null: a bridge asks it. */
  readonly kvEvents: KvEventsConfig | null
}

/** vLLM's `--kv-events-config`, as its sockets are reached from the bridge. */
export interface KvEventsConfig {
  readonly endpoint: string
  /** null: missed batches cannot be asked for. */
  readonly replayEndpoint: string | null
  readonly topic: string
}

export interface LmcacheConfig {
  /** MP coordinator's base URL; null: the legacy controller, or the gateway is the registry. */
  readonly coordinator: string | null
  readonly controller: string | null
  readonly registry: boolean
  readonly budgetMs: number
  readonly shared: boolean
  /** Sent to the coordinator or controller, e.g. access tokens of a tunnel. */
  readonly headers: Readonly<Record<string, string>>
  /** Workers: name of a binding to fetch through. */
  readonly binding: string | null
  /** Model name in LMCache's keys; null: asked of the engines. */
  readonly model: string | null
  /** Ranks that share one engine's cache; null: read off the directory. */
  readonly worldSize: number | null
  /** Registry only: tokens in a chunk. */
  readonly chunkTokens: number
  /** Registry only: what LMCache servers show; null: the admin key. */
  readonly token: string | null
}

export interface PoolLimits {
  readonly connectMs: number
  /** From dispatch to the first body byte of a stream. */
  readonly firstByteMs: number
  /** From dispatch to the body of an answer that does not stream. */
  readonly answerMs: number
  readonly prefillMs: number
  /** Longest silence between bytes of a stream. */
  readonly idleMs: number
  /** Longest that a stream nobody reads keeps its booking (Workers). */
  readonly nativeMs: number
}

export interface LimitsConfig {
  readonly bodyBytes: number
  /** Largest sum of request bodies held at once, in bytes; of the process, or of the isolate. */
  readonly bufferedBytes: number
  /** Most lists, mappings and texts in a client's body; sixteen numbers count as one. */
  readonly maxJsonCost: number
  /** SSE comments while an engine is silent; 0: none. */
  readonly heartbeatMs: number
  /** How long running streams may finish after SIGTERM. */
  readonly drainMs: number
  /** Longest time a client may read nothing of its answer; 0: no limit. */
  readonly writeMs: number
  /** Connections of clients served at once (Node); null: as many as file descriptors allow. */
  readonly connections: number | null
  /** Bounded map of response ids to engines. */
  readonly responseIds: number
}

export interface RecordConfig {
  readonly file: string
  readonly maxBytes: number
  /** Kept, the newest included. */
  readonly files: number
  /** null: a new one at each start. */
  readonly salt: string | null
}

export interface LogConfig {
  readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent'
  /** One line per engine this often; 0: none. */
  readonly statsIntervalMs: number
  /** The line `Routing request … with session id …` of production-stack's router. */
  readonly routing: boolean
}

export interface TtftConfig {
  readonly enabled: boolean
  readonly listen: { readonly host: string; readonly port: number } | null
  readonly token: string | null
  readonly ttlMs: number
  readonly maxRequests: number
  readonly maxBytes: number
  /** A line in the log for each new stage and each report that became complete. */
  readonly log: boolean
  /** The known stages as a last comment of streams that are read on the way. */
  readonly comment: boolean
  /** Reports that come in go to this gateway instead; null: they are kept here. */
  readonly relay: { readonly url: string; readonly token: string | null } | null
}

export interface MetricsConfig {
  /** What scrapers show; null: the admin key, or nothing on a loopback listener. */
  readonly key: string | null
}

export interface TracesConfig {
  /** Base URL of an OTLP/HTTP collector, or its `/v1/traces`; null: nothing is exported. */
  readonly endpoint: string | null
  readonly headers: Readonly<Record<string, string>>
  /** Share of requests without a decision of the client's; 0..1. */
  readonly sample: number
  readonly service: string
}
