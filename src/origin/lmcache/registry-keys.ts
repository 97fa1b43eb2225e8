import { promptKeys } from '../../core/lmcache/chunk-keys.ts'
import type { Admission } from '../../core/cluster/contract.ts'
import type { CacheQuestion } from '../../ports.ts'
import type { CacheFacts } from './facts.ts'

export interface RegistryKeysOptions {
  readonly facts: CacheFacts
  readonly chunkTokens: number
  readonly shared: boolean
}

/** For pools whose own object is the registry: nobody is asked, the prompt only carries the names of its chunks. */
export class RegistryKeys {
  readonly #options: RegistryKeysOptions

  constructor(options: RegistryKeysOptions) {
    this.#options = options
  }

  /** null: the model's name in the keys is not known yet. Never rejects. */
  async chunks({ tokens, salt, deadline, background }: CacheQuestion): Promise<NonNullable<Admission['chunks']> | null> {
    const { facts, chunkTokens, shared } = this.#options
    await deadline.within(facts.ready(background))
    const { model } = facts
    if (model === null) return null
    return { keys: promptKeys(tokens, chunkTokens, { model, salt: salt ?? '' }), tokens: chunkTokens, shared }
  }
}
