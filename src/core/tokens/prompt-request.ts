export interface PromptRequest {
  readonly endpoint: PromptEndpoint
  /** Parsed JSON; long texts of the prompt may be `Utf8Text`. */
  readonly body: unknown
  /** Size of the body, which measures an unreadable prompt. */
  readonly bodyBytes: number
  readonly adapter: string | null
  /** Cache salts of the client and the key. */
  readonly salts: readonly string[]
  /** Set only if tenants must not share caches. */
  readonly tenant: string | null
  /** Return the ids too, for a cache lookup. */
  readonly withIds?: boolean
}

/**
 * Endpoints by the format of their body. `audio`: an upload, of which only the size counts; `other`: nothing is read.
 */
export type PromptEndpoint =
  | 'completions'
  | 'chat'
  | 'responses'
  | 'messages'
  | 'embeddings'
  | 'rerank'
  | 'score'
  | 'tokenize'
  | 'audio'
  | 'other'
