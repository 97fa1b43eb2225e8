import type { Admission } from '../contract/admission.ts'

/**
 * Tokens per prompt block: the pool's `blockTokens` for token ids. Byte chunks hold a varying number; together they
 * are the prompt except for less than one chunk.
 */
export function tokensPerBlock(
  { tokenSource, promptTokens, blocks }: Pick<Admission, 'tokenSource' | 'promptTokens' | 'blocks'>,
  blockTokens: number,
): number {
  const count = blocks.length >> 1
  if (tokenSource !== 'bytes' || count === 0) return blockTokens
  return Math.min(promptTokens / count, Math.max(blockTokens, promptTokens / (count + 1)))
}
