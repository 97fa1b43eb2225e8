import type { Outcome } from '../../contract/outcome.ts'

/** Minimum weight of the latest response in `UsualOutput`. */
const LATEST_OUTPUT_SHARE = 0.01

/** Mean output tokens of the pool's responses. */
export class UsualOutput {
  #tokens: number | null = null
  #responses = 0

  /** null: no response yet. */
  get tokens(): number | null {
    return this.#tokens
  }

  learn({ result, usage }: Outcome, sequences = 1): void {
    if (result !== 'complete' || usage === null) return
    const tokens = usage.completionTokens / sequences
    this.#responses += 1
    const before = this.#tokens ?? tokens
    this.#tokens = before + Math.max(LATEST_OUTPUT_SHARE, 1 / this.#responses) * (tokens - before)
  }
}
