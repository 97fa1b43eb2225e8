/**
 * Attention work of a prefill in query-key pairs: the sum of i for i in C+1..P (vllm production-stack#670). Cached
 * tokens are clamped to the prompt; without the clamp, 20 cached of 10 gave -155.
 */
export function prefillWork(promptTokens: number, cachedTokens: number): number {
  const cached = Math.min(Math.max(0, cachedTokens), promptTokens)
  return ((cached + 1 + promptTokens) * (promptTokens - cached)) / 2
}
