import { rollHash } from '../block-keys.ts'

const bytesOf = (text: string): number[] => Array.from(new TextEncoder().encode(text))

/** A synthetic but stable log probability. The chosen token always has the highest. */
const logprobOf = (token: number, rank: number): number => -((rollHash(7, token) % 1000) / 1000) - rank * 2 - 0.001

/** Synthetic alternatives; the first is the token itself. */
const alternative = (piece: string, rank: number): string =>
  rank === 0 ? piece : `${piece}${String.fromCharCode(96 + rank)}`

interface TokenLogprob {
  readonly token: string
  readonly logprob: number
  readonly bytes: number[]
}

/** One entry of a chat's `logprobs.content`, with `count` alternatives. */
export function tokenLogprobs(
  piece: string,
  token: number,
  count: number,
): TokenLogprob & { top_logprobs: TokenLogprob[] } {
  const entry = (rank: number): TokenLogprob => {
    const text = alternative(piece, rank)
    return { token: text, logprob: logprobOf(token, rank), bytes: bytesOf(text) }
  }
  return { ...entry(0), top_logprobs: Array.from({ length: count }, (_, rank) => entry(rank)) }
}

/** A completion's `logprobs` for these tokens, the first of which stands at `offset` in the text. */
export function completionLogprobs(
  pieces: readonly string[],
  tokens: Uint32Array,
  count: number,
  offset: number,
): object {
  const offsets: number[] = []
  let at = offset
  for (const piece of pieces) {
    offsets.push(at)
    at += piece.length
  }
  return {
    text_offset: offsets,
    token_logprobs: pieces.map((_, index) => logprobOf(tokens[index]!, 0)),
    tokens: [...pieces],
    top_logprobs: pieces.map((piece, index) =>
      Object.fromEntries(
        Array.from({ length: Math.max(1, count) }, (_, rank) => [
          alternative(piece, rank),
          logprobOf(tokens[index]!, rank),
        ]),
      ),
    ),
  }
}
