import type { EngineTarget } from '../../ports/engine-target.ts'
import { withoutQuery } from '../../url.ts'

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
  readonly #engines = new WeakMap<EngineTarget, Map<string, Sums>>()

  /** Estimated tokens of one answer. null: no answer was read yet. */
  of(engine: EngineTarget, path: string, { sequences, limitTokens, truncatedAtMs }: UnknownLength): number | null {
    const sums = this.#engines.get(engine)?.get(withoutQuery(path))
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
    const endpoints = this.#engines.get(engine) ?? new Map<string, Sums>()
    this.#engines.set(engine, endpoints)
    const endpoint = withoutQuery(path)
    const before = endpoints.get(endpoint) ?? { answers: 0, tokens: 0, ms: 0 }
    const kept = 1 - 1 / MEMORY_ANSWERS
    endpoints.set(endpoint, {
      answers: kept * before.answers + 1,
      tokens: kept * before.tokens + answer.tokens / answer.sequences,
      ms: kept * before.ms + Math.max(1, answer.ms),
    })
  }
}
