/** Predicted times of a first token, without a transfer. */
export interface PrefillForecast {
  /** Queued work and the own prefill one after the other, milliseconds. */
  readonly workMs: number
  /** Both in the engine's steps, milliseconds. */
  readonly inStepsMs: number
  /** The better one, without the usual delay of prompts that wait behind others, milliseconds. */
  readonly baseMs: number
}

/** Predicted first token of a request on one engine. null: unknown. */
export interface Forecast {
  readonly ttftMs: number | null
  readonly prefill?: PrefillForecast
  readonly cachedTokens: number | null
  /** Sum of the delays of the engine's running streams by the prefill, milliseconds. */
  readonly stallMs?: number
  /** From the end of a prefill on another engine to the first token on this one, milliseconds. */
  readonly handOverMs?: number
}
