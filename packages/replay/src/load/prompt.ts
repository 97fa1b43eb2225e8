import { rollHash } from '../../../simulator/src/block-keys.ts'
import type { TraceRequest } from '../replay/trace.ts'

/** First token id used. Ids above it exist in every usual vocabulary and are no special tokens. */
const FIRST_ID = 1000

const IDS = 20_000

/**
 * Builds token ids for a traced prompt. Equal blocks get equal tokens, and the tail that fills no block is unique, so
 * that an engine's cache hits exactly where the trace expects it.
 */
export function promptOf(request: TraceRequest, blockTokens: number, nonce: number): number[] {
  const tokens: number[] = []
  const { blocks, promptTokens } = request
  for (let at = 0; at * 2 < blocks.length; at += 1)
    fill(tokens, blocks[at * 2]! ^ blocks[at * 2 + 1]!, Math.min(promptTokens, (at + 1) * blockTokens))
  fill(tokens, rollHash(0x7a11, nonce), promptTokens)
  return tokens
}

function fill(tokens: number[], seed: number, until: number): void {
  while (tokens.length < until) tokens.push(FIRST_ID + (rollHash(seed, tokens.length) % IDS))
}

const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'

const letter = (id: number, divisor: number): string => LETTERS[Math.floor(id / divisor) % LETTERS.length]!

/** Words of three letters, one for each token id. A simulated engine counts a token for each. */
export function textOf(prompt: readonly number[]): string {
  return prompt.map((id) => ` ${letter(id, 1)}${letter(id, 52)}${letter(id, 2704)}`).join('')
}
