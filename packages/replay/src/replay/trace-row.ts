/** One line of a trace in Mooncake's schema, with the fields of AIPerf. */
export interface TraceRow {
  readonly timestamp: number
  readonly input_length: number
  readonly output_length: number
  readonly hash_ids: readonly number[]
  readonly session_id?: string
  readonly think_ms?: number
  /** AIPerf: milliseconds after the answer to the session's request before. */
  readonly delay?: number
  /** AIPerf: whether the row has the whole prompt. */
  readonly context_mode?: string
  readonly block_tokens?: number
}
