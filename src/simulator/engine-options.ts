import type { Receiver } from './kv-lmcache.ts'
import { profileNamed, type EngineLimits, type Profile } from './profiles.ts'
import type { StepLaw } from './step-cost.ts'
import { vocabularySize } from './tokenizer.ts'

/** One simulated engine; everything has a default. Names follow vLLM's flags where there is one. */
export interface EngineOptions {
  readonly id?: string
  /** `prefill`, `decode` and `encode` speak NIXL unless `connector` says otherwise. */
  readonly role?: 'any' | 'prefill' | 'decode' | 'encode'
  /** Name of a profile, or one of your own. */
  readonly profile?: string | Profile
  readonly limits?: Partial<EngineLimits>
  readonly costModel?: Partial<StepLaw>
  readonly model?: string
  /** `--model`, where `model` is the `--served-model-name`: shown as `root`. */
  readonly modelPath?: string
  /** Names of loaded adapters. */
  readonly adapters?: readonly string[]
  readonly apiKey?: string | null
  readonly connector?: 'nixl' | 'lmcache' | 'response' | null
  /** `lmcache`: where prefill engines push to. */
  readonly receiver?: Receiver
  readonly maxNumQueuedReqs?: number | null
  readonly maxNumQueuedTokens?: number | null
  readonly prefixCaching?: boolean
  /** Token ids in prompts must be below this; the simulated tokenizer's own are large. */
  readonly vocabularySize?: number
  /** Images, sounds and videos are taken. */
  readonly multimodal?: boolean
  /** Embeddings, scores, ranks, classes: a real engine has either these or generation. */
  readonly pooling?: boolean
  /** `--enable-per-request-metrics`. */
  readonly perRequestMetrics?: boolean
  /** `--enable-request-id-headers`. */
  readonly requestIdHeaders?: boolean
  /** `VLLM_SERVER_DEV_MODE`: sleep, pause, reset. */
  readonly devMode?: boolean
  readonly holdLeaseMs?: number
  /** `--kv-events-config`: publish what changes in the prefix cache. A host gives it sockets. */
  readonly kvEvents?: boolean
  /** Requests kept for assertions. */
  readonly keepRequests?: number
}

export interface EngineSettings {
  readonly id: string
  readonly role: 'any' | 'prefill' | 'decode' | 'encode'
  readonly profile: string
  readonly limits: EngineLimits
  readonly costModel: StepLaw
  readonly model: string
  readonly modelPath: string
  readonly adapters: readonly string[]
  /** Names that requests may ask for: the model's and the adapters'. */
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
  readonly kvEvents: boolean
  readonly keepRequests: number
}

/** Fills in the defaults. Throws a RangeError on an unknown profile. */
export function settle(options: EngineOptions, index: number): EngineSettings {
  const profile = typeof options.profile === 'object' ? options.profile : profileNamed(options.profile ?? 'demo')
  const limits = { ...profile.limits, ...options.limits }
  const { role = 'any', model = 'sim', adapters = [] } = options
  return {
    id: options.id ?? `engine-${index}`,
    role,
    profile: profile.name,
    // A prompt that no empty cache could hold would wait for ever.
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
    kvEvents: options.kvEvents ?? false,
    keepRequests: options.keepRequests ?? 16,
  }
}
