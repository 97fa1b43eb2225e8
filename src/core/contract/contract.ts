import type { DecisionCount } from '../pool/decisions.ts'
import type { EarlyLegRole } from './legs.ts'
import type { ShadowChoice } from '../routing/policy.ts'

/** Another gateway in front of the same engines. */
export interface ReplicaDigest {
  /** Name of its machine or pod. */
  readonly host: string
  /** Unique for each start of the process. */
  readonly id: string
  /** `away`: its bookings are not received now. */
  readonly state: 'following' | 'away'
  /** Its live bookings, of all pools. */
  readonly bookings: number
}

/** Durations of the stages a request went through before its first token, milliseconds. Absent: not gone through or unknown. */
export type StageTimes = Readonly<Partial<Record<Stage, number>>>

export type Stage =
  | 'edge'
  | 'tokens'
  | 'route'
  | 'lookup'
  | 'admit'
  | 'connect'
  | 'encode'
  | 'prefill_leg'
  | 'transfer'
  | 'queue'
  | 'prefill'
  | 'first_byte'
  | 'ttft'

/** Why an engine cannot be chosen. */
export type ExclusionReason =
  | 'unhealthy'
  | 'circuit_open'
  | 'draining'
  | 'asleep'
  | 'role'
  | 'model'
  | 'full'
  | 'avoided'
  | 'signal_missing'

/** Why nobody was. */
export type RefusalReason =
  | 'unconfigured'
  | 'no_engine'
  | 'engines_unavailable'
  | 'engines_full'
  | 'role_empty'
  | 'retry_budget'
  | 'overloaded'

/** What an engine's answers taught. */
export interface EngineLearned {
  /** In use: learned, a sibling's, or a hardware profile's. Seconds: fixedS + perTokenS * new + perPairS * (total² - cached²)/2. */
  readonly costModel: { readonly fixedS: number; readonly perTokenS: number; readonly perPairS: number }
  readonly samples: number
  /** 0: nothing but a prior; towards 1 with samples that agree. */
  readonly confidence: number
  /** Blocks of prompts it was found to keep; null: never found to keep less than it says. */
  readonly cacheBlocks: number | null
  /** Decayed mean of |actual - predicted| / actual TTFT; null: none seen. */
  readonly ttftError: number | null
  /** Decayed means a request, in tokens. */
  readonly predictedCachedTokens: number
  readonly actualCachedTokens: number
  readonly cachedTokensError: number
  /** Times its cache was found empty. */
  readonly restarts: number
  /** Hits are predicted and never seen: the likely causes; null: all is well. */
  readonly silentMiss: readonly string[] | null
  /** 0: just joined or restarted; 1: has been there for a while. */
  readonly warmth: number
}

export const PAYLOAD_VERSION = 1

/** What an engine may do. `any` may do all of it. */
export type Role = 'any' | 'prefill' | 'decode' | 'encode'

/** One engine as the books know it. Addresses and secrets stay with the edge. */
export interface EngineSpec {
  readonly id: string
  readonly role: Role
  /** Model names (base or adapters) it serves; null: whatever its pool serves. */
  readonly models: readonly string[] | null
  readonly labels: Readonly<Record<string, string>>
  /** Relative share of traffic for policies that weigh; 1 is usual. */
  readonly weight: number
  /** Requests it may hold at once; null: no limit of ours. */
  readonly maxInFlight: number | null
  readonly prefixCaching: 'auto' | 'on' | 'off'
  /** KV blocks (of the pool's `blockTokens`) it can hold; null: taken from its metrics or learned. */
  readonly cacheBlocks: number | null
  /** Network round trip from the gateway, milliseconds. */
  readonly rttMs: number
  /** Name of a hardware profile for cold-start priors; null: the pool's or the default. */
  readonly profile: string | null
  /** LMCache instance it reads from; null or absent: not configured. */
  readonly lmcacheInstance?: string | null
  /** It is another gateway, with engines of its own. Absent: it is not. */
  readonly isGateway?: boolean
}

export interface PolicyConfig {
  readonly name: string
  /** Options of the policy, already validated by the config schema. */
  readonly options: Readonly<Record<string, number | string | boolean>>
}

export type SplitMode = 'always' | 'never' | 'threshold' | 'uncached' | 'adaptive'

export interface SplitConfig {
  readonly mode: SplitMode
  readonly thresholdTokens: number
  readonly fallback: 'decode_only' | 'fail'
}

/** The circuit breakers of a pool. */
export interface CircuitConfig {
  /** Consecutive failures that open a circuit. */
  readonly failures: number
  /** How long it stays open before a trial. */
  readonly openMs: number
  /** Circuits that may be open at once, as a share of the engines, rounded up. Absent from older edges: 1. */
  readonly maxEjectedShare?: number
  /** Circuits are ignored while less than this share of the engines is available. Absent from older edges: 0. */
  readonly panicShare?: number
}

/** Everything a ClusterState needs to know about its pool. */
export interface PoolConfig {
  readonly cluster: string
  /** Base model of the pool: its name in configs, digests and metrics. */
  readonly pool: string
  readonly blockTokens: number
  readonly policy: PolicyConfig
  /** A second policy that ranks the same candidates and never acts. */
  readonly shadow: PolicyConfig | null
  readonly split: SplitConfig
  /** A booking without a sign of life for this long lapses. */
  readonly leaseMs: number
  /** Retries as a share of requests, plus a floor per second so that a quiet pool can retry at all. */
  readonly retry: { readonly share: number; readonly minPerS: number }
  readonly circuit: CircuitConfig
  readonly statsIntervalMs: number
  /** Hard cap of the prefix index, entries over all engines. */
  readonly indexEntries: number
  readonly engines: readonly EngineSpec[]
}

/** A cached-prefix fact fetched before admit, e.g. from LMCache. */
export interface CacheHint {
  readonly engine: string
  readonly matchedTokens: number
  readonly tier: 'device' | 'host' | 'disk' | 'remote'
}

/** Options a request may set for itself, where its key allows it. */
export interface Overrides {
  readonly policy?: string
  readonly overlapWeight?: number
  readonly temperature?: number
}

export type TokenSource = 'exact' | 'engine' | 'ids' | 'bytes'

export interface Admission {
  readonly version: number
  /** Made by the gateway, never by the client. */
  readonly id: string
  /** Version of the pool config the edge holds. */
  readonly configVersion: number
  /** Model name as the engine knows it (an adapter's name where one was asked for). */
  readonly model: string
  /** Adapter name; null for the base model. */
  readonly adapter: string | null
  readonly promptTokens: number
  readonly tokenSource: TokenSource
  /** Chained block hashes, two 32-bit lanes a block: [lo0, hi0, lo1, hi1, …]. Full blocks only. */
  readonly blocks: Uint32Array
  readonly session: string | null
  /** Lower is more urgent, as in vLLM. */
  readonly priority: number
  readonly expectedOutputTokens: number | null
  /** Will its answer's first token be seen as it comes? Absent: not known. */
  readonly streams?: boolean
  readonly tenant: string
  readonly overrides: Overrides | null
  /** null: no lookup was made or it failed; []: looked up, nothing found. */
  readonly hints: readonly CacheHint[] | null
  /** For an object that is LMCache's registry: keys of the prompt's chunks, two lanes each. It makes hints of them. */
  readonly chunks?: { readonly keys: Uint32Array; readonly tokens: number; readonly shared: boolean } | null
  /** Why this request cannot be split; null: it can. */
  readonly unsplittable: string | null
  /** Prompt length as a split's `threshold` counts it; absent: `promptTokens`. */
  readonly splitTokens?: number
  /** The engine computes all of the prompt, whatever it has cached: its tokens are to be scored. Absent: it does not. */
  readonly computesAll?: boolean
  /** Answers it makes side by side: choices of each of its prompts. Absent: one. */
  readonly sequences?: number
  /** Multimodal items to encode. */
  readonly encodeItems: number
  /** 0 for the first attempt; later ones draw on the retry budget. */
  readonly attempt: number
  /** Only gateways that are full or out of reach were asked before: nobody has worked for it, so this is no retry. Absent: it is one, unless it is the first. */
  readonly moved?: boolean
  /**
   * All earlier attempts failed in these legs, so no engine has been asked for the answer itself. A placement without
   * these legs is no retry. Absent: an engine that was asked for the answer failed, or there was no earlier attempt.
   */
  readonly failedLegs?: readonly EarlyLegRole[]
  /** Engines that failed this request already. */
  readonly avoid: readonly string[]
  /** No other cluster is left to ask: rather an engine whose circuit is open than none. Absent: there may be one. */
  readonly isLastResort?: boolean
}

/** Who serves, in order; `runnersUp` are for an edge that loses touch with the object. */
export type Placement =
  | { readonly kind: 'whole'; readonly engine: string; readonly runnersUp: readonly string[] }
  | { readonly kind: 'split'; readonly prefill: string; readonly decode: string; readonly runnersUp: readonly string[] }
  | {
      readonly kind: 'staged'
      readonly encode: readonly string[]
      readonly prefill: string | null
      readonly decode: string
      readonly runnersUp: readonly string[]
    }

/** One ranked candidate, with every term of its cost. */
export interface RankedCandidate {
  readonly engine: string
  /** Lower is better; unit is the policy's own (seconds for `predicted`, blocks for `active_blocks`). */
  readonly cost: number
  readonly terms: Readonly<Record<string, number>>
}

export interface ExcludedEngine {
  readonly engine: string
  readonly reason: ExclusionReason
}

/** The why of one choice, kept for `explain`. */
export interface Decision {
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly cluster: string
  readonly pool: string
  readonly model: string
  readonly attempt: number
  readonly promptTokens: number
  readonly tokenSource: TokenSource
  readonly policy: string
  /** Policy that was configured but could not be used, with the reason; null when it was used. */
  readonly fallback: { readonly from: string; readonly reason: string } | null
  readonly placement: Placement
  /** Was the prefill put elsewhere, and why (not)? Absent: the pool never splits. */
  readonly split?: { readonly taken: boolean; readonly why: string }
  readonly candidates: readonly RankedCandidate[]
  readonly excluded: readonly ExcludedEngine[]
  /** Circuits were ignored, since too few engines were available. Absent: they were respected. */
  readonly panic?: boolean
  readonly predictedTtftMs: number | null
  readonly predictedCachedTokens: number | null
  /** What the shadow policy would have chosen; null without one. */
  readonly shadow: ShadowChoice | null
  /** Why the cluster refused a further attempt after this one failed. Absent: it was not asked for one, or placed it. */
  readonly retryRefused?: RefusalReason
  /** Filled in at the first token of a stream. Absent: none yet, or from an older object. */
  readonly firstToken?: { readonly ttftMs: number; readonly stages: StageTimes }
  /** Filled in at release. */
  readonly actual: {
    readonly ttftMs: number | null
    readonly cachedTokens: number | null
    readonly result: Result
    /** What it went through before its first token. Absent from older objects. */
    readonly stages?: StageTimes
  } | null
}

export interface Refusal {
  readonly reason: RefusalReason
  /** Operators' detail, free of addresses. */
  readonly detail: string
  /** A last resort (see Admission) would have been tried. Absent: it would not. */
  readonly mayPanic?: boolean
  readonly retryAfterMs: number
}

export type Result = 'complete' | 'client_gone' | 'engine_failed' | 'engine_refused' | 'abandoned' | 'lapsed'

/** Why an attempt on an engine failed before or after its first byte. */
export type AttemptFailure =
  | 'connect'
  | 'connect_timeout'
  | 'reset'
  | 'malformed'
  | 'first_byte_timeout'
  /** An answer that does not stream took longer than its limit. Not retried, and no failure of the engine. */
  | 'answer_timeout'
  | 'idle_timeout'
  | 'status_5xx'
  | 'busy'
  /** The gateway has no descriptors or ports left: the engine was not asked, and is not to blame. */
  | 'gateway_limit'
  /** Its address leads back to a gateway that the request has passed. */
  | 'loop'

export interface Usage {
  readonly promptTokens: number
  readonly completionTokens: number
  /** null: the engine does not report it. */
  readonly cachedTokens: number | null
}

/** How an attempt ended. `failure` is set when the engine is to blame. */
export interface Outcome {
  readonly version: number
  readonly result: Result
  readonly failure: AttemptFailure | null
  /** Which engine of a split or staged placement failed, was busy or refused; absent: it is not known, so nobody's circuit is blamed. */
  readonly failedEngine?: string | null
  readonly status: number | null
  readonly usage: Usage | null
  /** `data:` events seen; the fallback for output length when no usage came. 0 on native requests. */
  readonly outputEvents: number
  readonly stages: StageTimes
  /** Nobody read how its stream ended, where others of the pool are read: it may have been cut, however cleanly. Absent: taken for what it seems. */
  readonly endUnseen?: boolean
}

/** A booking's end of which nothing is known but how it ended. */
export const endedAs = (result: Result): Outcome => ({
  version: PAYLOAD_VERSION,
  result,
  failure: null,
  status: null,
  usage: null,
  outputEvents: 0,
  stages: {},
})

/** What a scrape, an operator, or the end of a request says about an engine. */
export type EngineSignal =
  | {
      readonly kind: 'probe'
      readonly engine: string
      readonly at: number
      readonly healthy: boolean
      readonly asleep: boolean
      /** null: the engine is up but its metrics could not be read. */
      readonly stats: EngineStats | null
    }
  | { readonly kind: 'drain'; readonly engine: string; readonly draining: boolean }
  /** It failed this booking (`bookingKey`), but so did others, and nobody answered: the request is to blame. `doubtful`: nobody else could be asked. */
  | { readonly kind: 'excused'; readonly engine: string; readonly booking: string; readonly doubtful?: boolean }

/** From the engine's own `/metrics`; null where it does not say. */
export interface EngineStats {
  readonly running: number
  readonly waiting: number
  /** Share of KV cache in use, 0..1. */
  readonly kvUsage: number | null
  /** Tokens a block, as the engine cuts them. */
  readonly blockTokens: number | null
  readonly cacheBlocks: number | null
  readonly prefixCaching: boolean | null
  readonly adapters: { readonly running: readonly string[]; readonly max: number | null } | null
}

export type CircuitState = 'closed' | 'open' | 'probing'

export interface EngineDigest {
  readonly id: string
  readonly role: Role
  readonly weight: number
  /** May it be chosen now? */
  readonly available: boolean
  readonly healthy: boolean
  readonly draining: boolean
  readonly asleep: boolean
  readonly circuit: CircuitState
  /** Requests booked and not released. */
  readonly requests: number
  readonly activeBlocks: number
  /** Seconds of booked prefill with no first token yet. */
  readonly queuedPrefillS: number
  /** Tokens of it, without what is cached. Absent from older objects. */
  readonly queuedPrefillTokens?: number
  readonly cachedBlocks: number
  readonly cacheBlocks: number | null
  /** Decayed mean of observed TTFT; null: none seen. */
  readonly ttftMs: number | null
  readonly requestsTotal: number
  readonly failuresTotal: number
  /** Failures that would have opened its circuit but for a limit of ejection. Absent from older objects. */
  readonly ejectionsWithheld?: number
  /**
   * Of the totals, what earlier incarnations of the object had counted when they last wrote it down: less than they had shown.
   * Who takes a fall for a new beginning counts without it. Absent from older objects.
   */
  readonly countedBefore?: { readonly requests: number; readonly failures: number }
  readonly stats: (EngineStats & { readonly ageMs: number }) | null
  readonly learned?: EngineLearned
  /** How its KV events come in; absent: nobody passes them on. */
  readonly kvFeed?: {
    /** `exact`: they alone say what it holds. `partial`: it may hold more. `silent`: none came lately. */
    readonly state: 'exact' | 'partial' | 'silent'
    /** Blocks stored and removed. */
    readonly changes: number
    /** Times the picture began anew. */
    readonly resyncs: number
    readonly lagMs: number
  }
  /** Share of prompt tokens its cache had, a decayed mean, 0..1; null: no engine said. Absent from older objects. */
  readonly hitRate?: number | null
  /** The last TTFTs, ms, oldest first. In a glance only. */
  readonly recentTtftMs?: readonly number[]
}

/** Small summary of one cluster's pool; edges cache it and choose clusters by it. */
export interface ClusterDigest {
  readonly version: number
  readonly cluster: string
  readonly pool: string
  readonly configVersion: number
  /** Grows with every digest of one incarnation of the object. */
  readonly seq: number
  readonly epoch: string
  readonly at: number
  readonly bookings: number
  readonly engines: readonly EngineDigest[]
  /** Absent from older objects. */
  readonly decisions?: readonly DecisionCount[]
  /** Absent where there are none. */
  readonly replicas?: readonly ReplicaDigest[]
  /** The server that carries their bookings is connected. Absent where none is configured. */
  readonly replicasUp?: boolean
}

/** For an operator's eye: a digest with the last TTFTs of each engine, and the last decisions. */
export interface ClusterGlance {
  readonly digest: ClusterDigest
  /** Newest first; `candidates` is empty, `explain` has them. */
  readonly decisions: readonly Decision[]
  /** Decisions with a first token or an outcome, the latest event first: they may be older than `decisions`. Absent from older objects. */
  readonly measured?: readonly Decision[]
}

/** What an edge sends to book again after the object lost its memory: a ranking is not repeated. */
export interface Resume {
  readonly admission: Admission
  readonly placement: Placement
  readonly firstTokenSeen: boolean
  /** Legs that answered before the first token. Absent from older edges. */
  readonly legsDone?: readonly ('encode' | 'prefill')[]
  readonly outputBlocks: number
  /** Others who keep books of the same engines chose this, and count it: `now`, or `before` they were heard of. Absent: it was chosen here, and forgotten. */
  readonly elsewhere?: 'now' | 'before'
}
