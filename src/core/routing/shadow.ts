/** What the shadow policy would have done in a choice. */
export interface ShadowChoice {
  readonly policy: string
  readonly engine: string
  readonly predictedTtftMs: number | null
  /** It would have chosen the same. Absent from older objects, as is the next. */
  readonly agrees?: boolean
  /** How much sooner its engine's first token is expected; negative: later. null: the choice was split, or nothing is known. */
  readonly predictedGainMs?: number | null
}
