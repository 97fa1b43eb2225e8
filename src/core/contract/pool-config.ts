/** Role of an engine. `any` may do everything. */
export type Role = 'any' | 'prefill' | 'decode' | 'encode'

/** Data-parallel ranks of one server. */
export interface RankSpec {
  /** null: as many as its metrics show. */
  readonly count: number | null
  /** Number of the first rank. */
  readonly first: number
}

/** Engine as the core sees it. Addresses and secrets stay with the gateway. */
export interface EngineSpec {
  readonly id: string
  readonly role: Role
  /** Model names (base or adapters) it serves; null: all of its pool. */
  readonly models: readonly string[] | null
  readonly labels: Readonly<Record<string, string>>
  /** Relative share of traffic for policies that use weights; default 1. */
  readonly weight: number
  /** Maximum concurrent requests; null: no limit. */
  readonly maxInFlight: number | null
  readonly prefixCaching: 'auto' | 'on' | 'off'
  /** Capacity in KV blocks of the pool's `blockTokens`; null: reported or learned. */
  readonly cacheBlocks: number | null
  /** Longest prompt with output, tokens; null or absent: reported, or unknown. */
  readonly contextTokens?: number | null
  /** Network round trip from the gateway, milliseconds. */
  readonly rttMs: number
  /** Name of a hardware profile for cold-start priors; null: the pool's or the default. */
  readonly profile: string | null
  /** LMCache instance it reads from; null or absent: not configured. */
  readonly lmcacheInstance?: string | null
  /** Data-parallel ranks behind its address, each of which is an engine. Absent: it is one engine. */
  readonly ranks?: RankSpec
  /** The engine is a rank of this server. Absent: it has an address of its own. */
  readonly server?: string
  /** The server does not send requests to the chosen rank, so its ranks are this engine. Absent: false. */
  readonly ignoresRanks?: boolean
  /** The engine is another gateway. Absent: it is not. */
  readonly isGateway?: boolean
  /** The engine belongs to a provider: a last resort, without probes and KV cache. Absent: it does not. */
  readonly isExternal?: boolean
}

/** Whether load and cache behind the address are unknown. */
export const isOpaque = ({ isGateway, isExternal }: Pick<EngineSpec, 'isGateway' | 'isExternal'>): boolean =>
  isGateway === true || isExternal === true

export interface PolicyConfig {
  readonly name: string
  /** Options of the policy, already validated by the config schema. */
  readonly options: Readonly<Record<string, number | string | boolean>>
}

export type SplitMode = 'always' | 'never' | 'threshold' | 'uncached' | 'adaptive'

/** Labels, as `KEY=VALUE` or a selector, of the engines that are to have a role. A key without labels: no labels. */
export interface SplitRoles {
  readonly prefill?: readonly string[]
  readonly decode?: readonly string[]
}

export interface SplitConfig {
  readonly mode: SplitMode
  readonly thresholdTokens: number
  readonly fallback: 'decode_only' | 'fail'
  /** Roles that the configuration names, also those whose engines were not discovered. Absent: `engines` has all. */
  readonly roles?: SplitRoles
}

/** The circuit breakers of a pool. */
export interface CircuitConfig {
  /** Consecutive failures that open a circuit. */
  readonly failures: number
  /** Time before a trial, milliseconds. */
  readonly openMs: number
  /** Maximum share of engines with open circuits, rounded up. Absent from older gateways: 1. */
  readonly maxEjectedShare?: number
  /** Panic threshold: circuits are ignored while a smaller share is available. Absent from older gateways: 0. */
  readonly panicShare?: number
}

/** Latency objectives of a pool, ms. null: no limit. */
export interface SloConfig {
  readonly ttftMs: number | null
  /** Added to `ttftMs` for each 1,000 prompt tokens. */
  readonly ttftMsPer1kTokens: number | null
  /** Mean time between two tokens of a response. */
  readonly itlMs: number | null
}

/** Limits of the requests that wait in a pool. */
export interface QueueConfig {
  readonly maxRequests: number
  readonly maxWaitMs: number
  /** Longest wait while no engine can serve, ms. Absent from older gateways: 0, such requests are refused. */
  readonly noEngineWaitMs?: number
}

/** Adapters that gateways load on engines. */
interface AdapterLoading {
  readonly adapters: readonly string[]
  /** Adapters on one server, at most. */
  readonly maxPerEngine: number
}

/** Configuration of a pool for its PoolState. */
export interface PoolConfig {
  readonly cluster: string
  /** Base model of the pool: its name in configs, digests and metrics. */
  readonly pool: string
  readonly blockTokens: number
  readonly policy: PolicyConfig
  /** Policy that ranks the same candidates without effect. */
  readonly shadow: PolicyConfig | null
  readonly split: SplitConfig
  /** Lease of a booking, milliseconds: without renewal it expires. */
  readonly leaseMs: number
  /** Retry budget: a share of requests, plus a minimum per second so that a quiet pool can retry. */
  readonly retry: { readonly share: number; readonly minPerS: number }
  readonly circuit: CircuitConfig
  readonly statsIntervalMs: number
  /** Maximum entries of the prefix index over all engines. */
  readonly indexEntries: number
  /** Requests beyond these objectives are refused. Absent, null: none. */
  readonly slo?: SloConfig | null
  /** Maximum requests without a first token per engine. Absent from older gateways: no limit. */
  readonly maxWaiting?: number
  /** Engines whose answers stand out: whether they are ejected. Absent, null: answers are not compared. */
  readonly canary?: { readonly eject: boolean } | null
  /** Requests that wait for room instead of being refused. Absent, null: none. */
  readonly queue?: QueueConfig | null
  /** Absent, null: engines load no adapters on demand. */
  readonly adapterLoading?: AdapterLoading | null
  /** Clients may request the adapters that engines report, and no others. Absent: those of the configuration. */
  readonly reportsAdapters?: boolean
  /** The engine seconds of requests are counted. Absent: they are not. */
  readonly countsCosts?: boolean
  readonly engines: readonly EngineSpec[]
}
