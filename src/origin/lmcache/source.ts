import type { Holders } from '../../core/lmcache/prefix-match.ts'
import type { ListedInstance } from '../../core/lmcache/instance-map.ts'

/** A service that knows what LMCache holds: the coordinator of multi-process mode, or the legacy controller. */
export interface CacheSource {
  /** What a prompt is looked up by, besides its tokens. */
  readonly needs: { readonly model: boolean }
  /** Fewer tokens than this are never found; 0: every prompt may be. */
  readonly leastTokens: number
  /** Rejects for everything that is no answer of such a service. */
  holders(prompt: CachedPrompt, call: Call): Promise<Holders>
  /** Instances on these hosts. */
  instances(hosts: readonly string[], call: Call): Promise<readonly ListedInstance[]>
  /** Ranks of an engine, where the service shows them; null: it does not, or not yet. */
  worldSize(model: string, call: Call): Promise<number | null>
}

export interface CachedPrompt {
  readonly tokens: Uint32Array
  /** Salt in force; '' for none. */
  readonly salt: string
  /** The model's name in LMCache's keys. */
  readonly model: string
  readonly worldSize: number
}

export interface Call {
  readonly signal: AbortSignal
  readonly budgetMs: number
}
