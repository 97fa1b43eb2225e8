import type { Admission } from '../../contract/admission.ts'

/** Assumed output of a request without an expected length. */
const USUAL_OUTPUT_TOKENS = 256

/** Demand of a request on the engine that suits it best. */
export interface RequestDemand {
  /** Expected work, for the order. */
  readonly work: number
  /** Longest wait after which its first token can meet the objective of the pool, ms. */
  readonly longestWaitMs: number
}

/** Work of a request, in tokens. An output token counts twice. */
export const workOf = (newTokens: number, outputTokens: number): number => Math.max(0, newTokens) + 2 * outputTokens

/** Expected work of a request on an engine with these tokens of it in the cache. */
export const expectedWork = ({ promptTokens, expectedOutputTokens }: Admission, cachedTokens: number): number =>
  workOf(promptTokens - cachedTokens, expectedOutputTokens ?? USUAL_OUTPUT_TOKENS)
