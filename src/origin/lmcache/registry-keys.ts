import type { Admission } from '../../core/contract/admission.ts'
import { promptKeys } from '../../core/lmcache/chunk-keys.ts'
import type { CacheLookupQuery } from '../../ports/cache-lookup.ts'
import type { LmcacheMetadata } from './lmcache-metadata.ts'

interface RegistryKeysOptions {
  readonly metadata: LmcacheMetadata
  readonly chunkTokens: number
  readonly shared: boolean
}

/**
 * Chunk keys for pools whose own object is the registry: no lookup is made; the prompt carries the names of its
 * chunks.
 */
export class RegistryKeys {
  readonly #options: RegistryKeysOptions

  constructor(options: RegistryKeysOptions) {
    this.#options = options
  }

  /** Returns the chunk keys. null: the model's name in the keys is not known yet. Never rejects. */
  async chunks({
    tokens,
    salt,
    deadline,
    background,
  }: CacheLookupQuery): Promise<NonNullable<Admission['chunks']> | null> {
    const { metadata, chunkTokens, shared } = this.#options
    await deadline.within(metadata.ready(background))
    const { model } = metadata
    if (model === null) return null
    return { keys: promptKeys(tokens, chunkTokens, { model, salt: salt ?? '' }), tokens: chunkTokens, shared }
  }
}
