import { rollHash } from '../../../simulator/block-keys.ts'
import type { TraceRequest } from '../../../simulator/replay/trace.ts'

/** Ids that every usual vocabulary has, clear of the special ones at its start. */
const FIRST_ID = 1000
const IDS = 20_000

/**
 * Token ids for a traced prompt: equal blocks give equal tokens, and the tail that fills no block is the request's own,
 * so that an engine's cache hits exactly where the trace says.
 */
export function promptOf(request: TraceRequest, blockTokens: number, nonce: number): number[] {
  const tokens: number[] = []
  const { blocks, promptTokens } = request
  for (let at = 0; at * 2 < blocks.length; at += 1) fill(tokens, blocks[at * 2]! ^ blocks[at * 2 + 1]!, Math.min(promptTokens, (at + 1) * blockTokens))
  fill(tokens, rollHash(0x7a11, nonce), promptTokens)
  return tokens
}

function fill(tokens: number[], seed: number, until: number): void {
  while (tokens.length < until) tokens.push(FIRST_ID + (rollHash(seed, tokens.length) % IDS))
}
