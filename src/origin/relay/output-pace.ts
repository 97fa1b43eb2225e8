import type { EngineTarget } from '../../ports/engine-target.ts'
import { PerEndpoint } from './per-endpoint.ts'

/** Share of a new answer in the decayed sums, in tokens: long answers weigh more than short ones. */
const MEMORY_TOKENS = 10_000

/** Decayed sums of complete answers. */
interface Sums {
  tokens: number
  ms: number
}

/**
 * Output tokens per time of answers that are no streams, learned per engine and endpoint from the usage of complete
 * ones. It estimates the output of answers whose client leaves: until their end they show nothing.
 */
export class OutputPace {
  readonly #sums = new PerEndpoint<Sums>(() => ({ tokens: 0, ms: 0 }))

  /** Output in this time. null: no answer was complete yet. */
  tokensIn(engine: EngineTarget, path: string, ms: number): number | null {
    const sums = this.#sums.known(engine, path)
    return sums === undefined ? null : Math.round((sums.tokens / sums.ms) * ms)
  }

  learn(engine: EngineTarget, path: string, { tokens, ms }: Readonly<Sums>): void {
    if (!(tokens > 0)) return
    const sums = this.#sums.of(engine, path)
    const kept = Math.max(0, 1 - tokens / MEMORY_TOKENS)
    sums.tokens = kept * sums.tokens + tokens
    sums.ms = kept * sums.ms + Math.max(1, ms)
  }
}
