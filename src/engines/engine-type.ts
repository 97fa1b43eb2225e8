/**
 * What the gateway uses of a type of engine. One file per type; engine-registry.ts lists them. What only commands and
 * docs use is in engine-guides.ts.
 */
import type { JsonObject } from '../core/json.ts'
import type { Prompt } from '../core/tokens/prompt.ts'
import type { AnswerMeaning, EngineAnswer, SentRequest } from './answer-meaning.ts'
import type { LoadMetrics } from './load-metrics.ts'

/** Types of servers of one's own, as the configuration names them. */
export const SERVER_TYPES = ['vllm', 'sglang', 'tensorrt-llm', 'llama.cpp', 'tgi', 'ollama', 'firstlight'] as const

/** `firstlight`: another gateway. `external`: a provider. */
export type EngineTypeName = (typeof SERVER_TYPES)[number] | 'external' | 'unknown'

/** A POST to an engine's management routes. */
export interface EngineCall {
  readonly path: string
  /** JSON. Absent: an empty object. */
  readonly body?: object
}

/** What happens to the requests of an engine that is paused: it ends them first, aborts them, or keeps them. */
export const PAUSE_MODES = ['wait', 'abort', 'keep'] as const

export type PauseMode = (typeof PAUSE_MODES)[number]

/** Signs of the type, from strong to weak in this order. */
interface Detection {
  /** Metric prefixes. */
  readonly metrics: readonly string[]
  /** `owned_by` in `/v1/models`. */
  readonly owners: readonly string[]
  /** `server` header. */
  readonly server: RegExp | null
  /** Routes that answer 200 with a body of this pattern. */
  readonly routes: readonly { readonly path: string; readonly body: RegExp }[]
}

export interface HealthCheck {
  readonly path: string
  /** Time limit, ms. */
  readonly limitMs: number
  /** Interval, ms; null: each round of probes. */
  readonly everyMs: number | null
  /** Statuses of 500 and more are bad. Other answers, such as 404 or 401, are good: the server serves requests. */
  readonly badFrom: 500
}

interface LoadSource {
  /** Paths of Prometheus metrics. The second is read if the first is missing or JSON. */
  readonly paths: readonly string[]
  readonly metrics: LoadMetrics
  /** Route with the load of each rank as JSON, without a flag. null: none. */
  readonly ranksRoute: { readonly path: string; readonly read: (json: unknown) => readonly RankLoad[] } | null
  /** Flag that exports the metrics. null: they are always exported. */
  readonly enabledBy: string | null
}

/** Load of one data-parallel rank. null: not reported. */
export interface RankLoad {
  readonly rank: number
  readonly running: number
  readonly waiting: number
  /** Prompt tokens of waiting requests that are not cached: the queued prefill. */
  readonly queuedPrefillTokens: number | null
  readonly cacheTokens: number | null
  readonly kvUsage: number | null
}

/** Data-parallel ranks behind one address. */
interface RankRules {
  /** Header that chooses the rank. */
  readonly header: string
  /** Numbers in the header: `local` counts from the first rank of the server, `global` from the first of all. */
  readonly numbering: 'local' | 'global'
  /** Answer (400) to a rank that does not exist: the gateway's mistake, never for the client. */
  readonly outOfRange: RegExp
  /** Answer that lists the ranks: the server counts globally. null: no version does. */
  readonly connected: RegExp | null
}

/** Limits of one engine. null: not reported. */
export interface Capacity {
  /** Longest prompt with output, tokens. */
  readonly contextTokens: number | null
  /** Requests that run at once. */
  readonly slots: number | null
}

interface CapacitySource {
  readonly path: string
  readonly read: (json: unknown, model: string) => Capacity
}

/** Calls that return token ids. */
interface TokenizeCalls {
  /** One call per prompt. null: the calls cannot express the prompt. */
  readonly calls: (prompt: Prompt, model: string) => readonly TokenizeCall[] | null
  /** null: no token ids. */
  readonly ids: (json: unknown) => Uint32Array | null
  /** null: the server has no such route. */
  readonly detokenize: DetokenizeCall | null
}

export interface TokenizeCall {
  readonly path: string
  readonly body: string
}

interface DetokenizeCall {
  readonly path: string
  readonly body: (ids: ArrayLike<number>, model: string) => string
  readonly text: (json: unknown) => string | null
}

/** States in which a healthy engine serves nothing, and how they are changed. */
export interface SleepRules {
  readonly states: readonly { readonly path: string; readonly field: string; readonly means: 'asleep' | 'paused' }[]
  readonly sleep: EngineCall | null
  readonly wake: EngineCall | null
  readonly pause: ((mode: PauseMode) => EngineCall) | null
  readonly resume: EngineCall | null
  /** The KV cache is empty after the engine has slept (for vLLM: at level 1 and above). */
  readonly dropsCache: boolean
  /** Route with the version of the weights. */
  readonly weights: { readonly path: string; readonly read: (text: string) => string | null }
  /** Settings that these routes need. null: none. */
  readonly enabledBy: string | null
}

/** Fields that the gateway itself may add to the body of a request. */
export const ADDABLE_FIELDS = [
  'stream_options',
  'return_token_ids',
  'priority',
  'cache_salt',
  'kv_transfer_params',
  'ec_transfer_params',
] as const

export type AddableField = (typeof ADDABLE_FIELDS)[number]

interface AdapterRules {
  /** `model` of a request for an adapter. */
  readonly nameFor: (base: string, adapter: string) => string
  /** Loads an adapter from a path or repository. null: not at run time. */
  readonly load: ((adapter: string, path: string) => EngineCall) | null
  readonly unload: ((adapter: string) => EngineCall) | null
}

export interface EngineType {
  /** As in the configuration. */
  readonly name: EngineTypeName
  /** Name for people. */
  readonly title: string
  readonly detection: Detection
  /** Empty: never asked (a provider), or asked in another way (a gateway sends its digest). */
  readonly health: readonly HealthCheck[]
  /** Route and pattern (group 1) of the version. null: it has no such route. */
  readonly version: { readonly path: string; readonly pattern: RegExp } | null
  /** null: the server reports no load. */
  readonly load: LoadSource | null
  readonly ranks: RankRules | null
  readonly capacity: CapacitySource | null
  /** What an answer, or the first event of a stream, means for routing. */
  readonly answerOf: (answer: EngineAnswer, sent: SentRequest) => AnswerMeaning
  /** false: the server answers for any `model`, so a wrong name is not found out. */
  readonly checksModel: boolean
  readonly adapters: AdapterRules | null
  readonly tokenize: TokenizeCalls | null
  readonly sleep: SleepRules | null
  /** Fields that the gateway may add. All others stay as the client sent them. */
  readonly addable: readonly AddableField[]
  /** Fields that are removed from the body of a client: they break the engine. `a.b` is field b of a. */
  readonly removedFields: readonly string[]
  /** Fields that change what the engine does beyond the request: a client that sets one is refused by default. */
  readonly deniedFields: readonly string[]
  /** Headers that change what the engine does beyond the request; those of clients do not pass. */
  readonly privateHeaders: readonly string[]
}

/** A type without anything of its own. */
export const PLAIN = {
  detection: { metrics: [], owners: [], server: null, routes: [] },
  health: [{ path: '/health', limitMs: 5_000, everyMs: null, badFrom: 500 }],
  version: null,
  load: null,
  ranks: null,
  capacity: null,
  checksModel: true,
  adapters: null,
  tokenize: null,
  sleep: null,
  addable: ['stream_options', 'cache_salt'],
  removedFields: [],
  deniedFields: [],
  privateHeaders: [],
} as const satisfies Partial<EngineType>

/** `"version": "0.32.0"` as all servers with such a route write it. */
export const VERSION_PATTERN = /"version": ?"([\w.+-]{1,40})"/

/** Number in a JSON object. null: absent or of another type. */
export function numberIn(json: JsonObject, name: string): number | null {
  const value = json[name]
  return typeof value === 'number' && Number.isFinite(value) ? value : null
}
