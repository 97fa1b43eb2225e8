/** Totals of an engine since its start. Names contain the unit. */
export interface EngineCounters {
  steps: number
  submitted: number
  completed: number
  aborted: number
  preemptions: number
  promptTokens: number
  /** Prompt tokens found in the prefix cache. */
  cachedTokens: number
  /** Prompt tokens fetched from another engine or from LMCache. */
  fetchedTokens: number
  outputTokens: number
  encodedItems: number
  /** Held blocks that were released because they were not read in time. */
  lapsedHolds: number
  /** Time spent in steps, ms. */
  busyMs: number
}

export const newCounters = (): EngineCounters => ({
  steps: 0,
  submitted: 0,
  completed: 0,
  aborted: 0,
  preemptions: 0,
  promptTokens: 0,
  cachedTokens: 0,
  fetchedTokens: 0,
  outputTokens: 0,
  encodedItems: 0,
  lapsedHolds: 0,
  busyMs: 0,
})
