/** Interface of LMCache's directory services. */
import type { ListedInstance } from '../../core/lmcache/instance-map.ts'
import type { Holders } from '../../core/lmcache/prefix-match.ts'

/** Directory service of LMCache: the coordinator of multi-process mode, or the legacy controller. */
export interface CacheSource {
  /** Keys of a lookup besides the tokens. */
  readonly needs: { readonly model: boolean }
  /** Shorter prompts are never found. 0: no lower limit. */
  readonly minTokens: number
  /** Returns the holders of a prompt. Rejects if the response is invalid. */
  holders(prompt: CachedPrompt, limits: CallLimits): Promise<Holders>
  /** Returns the instances on these hosts. */
  instances(hosts: readonly string[], limits: CallLimits): Promise<readonly ListedInstance[]>
  /** Number of ranks of an engine. null: the service does not report it, or not yet. */
  worldSize(model: string, limits: CallLimits): Promise<number | null>
}

export interface CachedPrompt {
  readonly tokens: Uint32Array
  /** Cache salt. '': none. */
  readonly salt: string
  /** Model name in LMCache's keys. */
  readonly model: string
  readonly worldSize: number
}

export interface CallLimits {
  readonly signal: AbortSignal
  readonly budgetMs: number
}
