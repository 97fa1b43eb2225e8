import type { EngineTarget } from '../../ports/engine-target.ts'
import { PerEndpoint } from './per-endpoint.ts'

/** Share of a new answer in the decayed sums: about the last 200 answers count. */
const MEMORY_ANSWERS = 200

/** Decayed sums of complete answers whose usage was read. */
interface Sums {
  answers: number
  tokens: number
  ms: number
}

/** An answer whose length is not known. */
interface UnknownLength {
  readonly sequences: number
  /** Limit of one sequence, tokens; Infinity: none. */
  readonly limitTokens: number
  /** Time until the answer broke off. null: it is complete. */
  readonly truncatedAtMs: number | null
}

/**
 * Output tokens of an answer, learned per engine and endpoint from complete ones. It estimates the output of streams
 * that are not read.
 */
export class OutputLength {
  readonly #sums = new PerEndpoint<Sums>(() => ({ answers: 0, tokens: 0, ms: 0 }))

  /** Estimated tokens of one answer. null: no answer was read yet. */
  of(engine: EngineTarget, path: string, { sequences, limitTokens, truncatedAtMs }: UnknownLength): number | null {
    const sums = this.#sums.known(engine, path)
    if (sums === undefined) return null
    const part = truncatedAtMs === null ? 1 : Math.min(1, (truncatedAtMs * sums.answers) / sums.ms)
    return Math.round(sequences * Math.min(limitTokens, (part * sums.tokens) / sums.answers))
  }

  /** Learns from an answer with the tokens of all its sequences. */
  learn(
    engine: EngineTarget,
    path: string,
    answer: Pick<Sums, 'tokens' | 'ms'> & { readonly sequences: number },
  ): void {
    const sums = this.#sums.of(engine, path)
    const kept = 1 - 1 / MEMORY_ANSWERS
    sums.answers = kept * sums.answers + 1
    sums.tokens = kept * sums.tokens + answer.tokens / answer.sequences
    sums.ms = kept * sums.ms + Math.max(1, answer.ms)
  }
}
