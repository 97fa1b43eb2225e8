import { rollHash } from '../block-keys.ts'

const bytesOf = (text: string): number[] => Array.from(new TextEncoder().encode(text))

/** A made-up but stable log probability: the chosen token is always the likeliest. */
const logprobOf = (token: number, rank: number): number => -((rollHash(7, token) % 1000) / 1000) - rank * 2

interface TokenLogprob {
  readonly token: string
  readonly logprob: number
  readonly bytes: number[]
}

/** One entry of `choices[].logprobs.content`. */
export function tokenLogprobs(piece: string, token: number, count: number): TokenLogprob & { top_logprobs: TokenLogprob[] } {
  const top: TokenLogprob[] = []
  for (let rank = 0; rank < count; rank += 1) {
    const text = rank === 0 ? piece : `${piece}${String.fromCharCode(96 + rank)}`
    top.push({ token: text, logprob: logprobOf(token, rank), bytes: bytesOf(text) })
  }
  return { token: piece, logprob: logprobOf(token, 0), bytes: bytesOf(piece), top_logprobs: top }
}
