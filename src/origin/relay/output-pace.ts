import type { EngineTarget } from '../../ports/engine-target.ts'
import { withoutQuery } from '../../url.ts'

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
  readonly #engines = new WeakMap<EngineTarget, Map<string, Sums>>()

  /** Output in this time. null: no answer was complete yet. */
  tokensIn(engine: EngineTarget, path: string, ms: number): number | null {
    const sums = this.#engines.get(engine)?.get(withoutQuery(path))
    return sums === undefined ? null : Math.round((sums.tokens / sums.ms) * ms)
  }

  learn(engine: EngineTarget, path: string, { tokens, ms }: Readonly<Sums>): void {
    if (!(tokens > 0)) return
    const endpoints = this.#engines.get(engine) ?? new Map<string, Sums>()
    this.#engines.set(engine, endpoints)
    const endpoint = withoutQuery(path)
    const before = endpoints.get(endpoint) ?? { tokens: 0, ms: 0 }
    const kept = Math.max(0, 1 - tokens / MEMORY_TOKENS)
    endpoints.set(endpoint, { tokens: kept * before.tokens + tokens, ms: kept * before.ms + Math.max(1, ms) })
  }
}
