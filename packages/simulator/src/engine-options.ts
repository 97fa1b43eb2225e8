import type { Receiver } from './kv-lmcache.ts'
import { profileNamed, type EngineLimits, type Profile } from './profiles.ts'
import type { StepCostModel } from './step-cost.ts'
import { vocabularySize } from './tokenizer.ts'

/** Options of one simulated engine, all with defaults. Names follow vLLM's flags. */
export interface EngineOptions {
  readonly id?: string
  /** `prefill`, `decode` and `encode` use NIXL unless `connector` is set. */
  readonly role?: 'any' | 'prefill' | 'decode' | 'encode'
  /** Name of a profile, or a profile. */
  readonly profile?: string | Profile
  readonly limits?: Partial<EngineLimits>
  readonly costModel?: Partial<StepCostModel>
  readonly model?: string
  /** `--model`, if `model` is the `--served-model-name`; shown as `root`. */
  readonly modelPath?: string
  /** Names of loaded adapters. */
  readonly adapters?: readonly string[]
  readonly apiKey?: string | null
  readonly connector?: 'nixl' | 'lmcache' | 'response' | null
  /** `lmcache`: address that prefill engines push to. */
  readonly receiver?: Receiver
  readonly maxNumQueuedReqs?: number | null
  readonly maxNumQueuedTokens?: number | null
  readonly prefixCaching?: boolean
  /** Token ids in prompts must be below this; ids of the simulated tokenizer are large. */
  readonly vocabularySize?: number
  /** Accepts images, audio and video. */
  readonly multimodal?: boolean
  /** Serves embeddings, scores, ranking and classification. A real engine serves either these or generation. */
  readonly pooling?: boolean
  /** `--enable-per-request-metrics`. */
  readonly perRequestMetrics?: boolean
  /** `--enable-request-id-headers`. */
  readonly requestIdHeaders?: boolean
  /** `VLLM_SERVER_DEV_MODE`: sleep, pause, reset. */
  readonly devMode?: boolean
  readonly holdLeaseMs?: number
  /** How long NIXL tries to reach an unknown engine. Default 5,100, as observed on a real server. */
  readonly connectLimitMs?: number
  /** `--kv-events-config`: publishes changes of the prefix cache. The host provides the sockets. */
  readonly kvEvents?: boolean
  /** Number of requests kept for assertions. */
  readonly keepRequests?: number
}

export interface EngineSettings {
  readonly id: string
  readonly role: 'any' | 'prefill' | 'decode' | 'encode'
  readonly profile: string
  readonly limits: EngineLimits
  readonly costModel: StepCostModel
  readonly model: string
  readonly modelPath: string
  readonly adapters: readonly string[]
  /** Names that requests may use: the model and its adapters. */
  readonly served: readonly string[]
  readonly apiKey: string | null
  readonly connector: 'nixl' | 'lmcache' | 'response' | null
  readonly receiver: Receiver | null
  readonly maxNumQueuedReqs: number | null
  readonly maxNumQueuedTokens: number | null
  readonly prefixCaching: boolean
  readonly vocabularySize: number
  readonly multimodal: boolean
  readonly pooling: boolean
  readonly perRequestMetrics: boolean
  readonly requestIdHeaders: boolean
  readonly devMode: boolean
  readonly holdLeaseMs: number
  readonly connectLimitMs: number
  readonly kvEvents: boolean
  readonly keepRequests: number
}

/** Fills in the defaults. Throws a RangeError for an unknown profile. */
export function settingsOf(options: EngineOptions, index: number): EngineSettings {
  const profile = typeof options.profile === 'object' ? options.profile : profileNamed(options.profile ?? 'demo')
  const limits = { ...profile.limits, ...options.limits }
  const { role = 'any', model = 'sim', adapters = [] } = options
  return {
    id: options.id ?? `engine-${index}`,
    role,
    profile: profile.name,
    // A prompt that does not fit into an empty cache would wait forever.
    limits: { ...limits, maxModelLen: Math.min(limits.maxModelLen, limits.cacheBlocks * limits.blockTokens) },
    costModel: { ...profile.costModel, ...options.costModel },
    model,
    modelPath: options.modelPath ?? model,
    adapters,
    served: [model, ...adapters],
    apiKey: options.apiKey ?? null,
    connector: options.connector === undefined ? (role === 'any' ? null : 'nixl') : options.connector,
    receiver: options.receiver ?? null,
    maxNumQueuedReqs: options.maxNumQueuedReqs ?? null,
    maxNumQueuedTokens: options.maxNumQueuedTokens ?? null,
    prefixCaching: options.prefixCaching ?? true,
    vocabularySize: options.vocabularySize ?? vocabularySize,
    multimodal: options.multimodal ?? true,
    pooling: options.pooling ?? true,
    perRequestMetrics: options.perRequestMetrics ?? true,
    requestIdHeaders: options.requestIdHeaders ?? true,
    devMode: options.devMode ?? true,
    holdLeaseMs: options.holdLeaseMs ?? 30_000,
    connectLimitMs: options.connectLimitMs ?? 5100,
    kvEvents: options.kvEvents ?? false,
    keepRequests: options.keepRequests ?? 16,
  }
}
