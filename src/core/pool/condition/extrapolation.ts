/**
 * Returns the factor by which the prefill of a prompt may exceed its prediction, because it is longer than any that the
 * pace was learned from. Predictions grow at least linearly with the length, and attention at most quadratically, so
 * the factor is at most the ratio of the lengths.
 * @param longestTokens longest prompt that the pace was learned from; 0: none
 */
export function extrapolation(promptTokens: number, longestTokens: number): number {
  return longestTokens > 0 ? Math.max(1, promptTokens / longestTokens) : 1
}
