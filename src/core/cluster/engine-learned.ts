/** What an engine's answers taught. */
export interface EngineLearned {
  /** In use: learned, a sibling's, or a hardware profile's. Seconds: fixedS + perTokenS * new + perPairS * (total² - cached²)/2. */
  readonly law: { readonly fixedS: number; readonly perTokenS: number; readonly perPairS: number }
  readonly samples: number
  /** 0: nothing but a prior; towards 1 with samples that agree. */
  readonly confidence: number
  /** Blocks of prompts it was found to keep; null: never found to keep less than it says. */
  readonly cacheBlocks: number | null
  /** Decayed mean of |actual - predicted| / actual TTFT; null: none seen. */
  readonly ttftError: number | null
  /** Decayed means a request, in tokens. */
  readonly predictedCachedTokens: number
  readonly actualCachedTokens: number
  readonly cachedTokensError: number
  /** Times its cache was found empty. */
  readonly restarts: number
  /** Hits are predicted and never seen: the likely causes; null: all is well. */
  readonly silentMiss: readonly string[] | null
  /** 0: just joined or restarted; 1: has been there for a while. */
  readonly warmth: number
}
