import type { Prompt } from './prompt.ts'

/** What the hashes of a prompt's blocks depend on, besides the prompt. */
export interface PromptScope {
  readonly adapter: string | null
  /** Cache salts of the client and the key. */
  readonly salts: readonly string[]
  /** Set only if tenants must not share caches. */
  readonly tenant: string | null
}

export interface PromptRequest extends PromptScope {
  readonly prompt: Prompt
  /** Size of the body, which measures an unreadable prompt. */
  readonly bodyBytes: number
  /** Return the ids too, for a cache lookup. */
  readonly withIds?: boolean
}
