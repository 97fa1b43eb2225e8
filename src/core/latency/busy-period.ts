import { type PrefillSize, STEP_TOKENS } from './prefill-cost-model.ts'

/** Mean prompt of a busy period, and its time. @testing */
export interface BusyPeriodSample extends PrefillSize {
  readonly seconds: number
  /** End of the busy period, milliseconds. */
  readonly at: number
}

export type OnSample = (sample: BusyPeriodSample) => void

export interface BusyPeriodStart {
  /** Milliseconds. */
  readonly at: number
  /** Booking order of its first prompt. */
  readonly from: number
  /** Whether it started with a booking, so that its time includes a network round trip, or with another first token. */
  readonly atBooking: boolean
}

/**
 * Busy period: prompts prefilled back to back, from a booking on an empty queue to the first token that empties it,
 * or, under load, between two first tokens. Only their total time is known, because engines batch prompts into steps.
 */
export class BusyPeriod {
  readonly #start: BusyPeriodStart
  readonly #onSample: OnSample
  /** Highest booking order among its prompts. */
  #last: number
  #endedAt: number | null = null
  #prompts = 0
  #bookedTokens = 0
  #recorded = 0
  #isInvalid = false
  #steps = 0
  #newTokens = 0
  #pairs = 0
  #rttS = 0

  /** @param onSample called at most once, when the period and all its prompts have ended */
  constructor(start: BusyPeriodStart, onSample: OnSample) {
    this.#start = start
    this.#onSample = onSample
    this.#last = start.from - 1
  }

  /** Booking order of its first prompt. */
  get from(): number {
    return this.#start.from
  }

  get prompts(): number {
    return this.#prompts
  }

  /** New tokens of its prompts, as estimated at booking. */
  get bookedTokens(): number {
    return this.#bookedTokens
  }

  /** Booking order of the prompt after it. */
  get next(): number {
    return this.#last + 1
  }

  /** Records a first token. */
  add(order: number, newTokens: number): void {
    this.#prompts += 1
    this.#bookedTokens += newTokens
    this.#last = Math.max(this.#last, order)
  }

  /** Closes the period. */
  end(at: number): void {
    this.#endedAt = at
    // A prompt without a first token, or a late one, is inside: time and sums do not match.
    if (this.#prompts !== this.next - this.#start.from) this.#isInvalid = true
    this.#conclude()
  }

  /** Records the final size of one of its prompts; null: unknown, so the period yields no sample. */
  record(size: PrefillSize | null, rttS: number): void {
    this.#recorded += 1
    this.#rttS = rttS
    if (size === null) this.#isInvalid = true
    else {
      this.#newTokens += size.newTokens
      this.#pairs += size.pairs
      this.#steps += Math.min(1, size.newTokens / STEP_TOKENS)
    }
    this.#conclude()
  }

  #conclude(): void {
    const endedAt = this.#endedAt
    if (endedAt === null || this.#recorded < this.#prompts || this.#isInvalid) return
    const seconds = (endedAt - this.#start.at) / 1000 - (this.#start.atBooking ? this.#rttS : 0)
    // Small prompts share steps, as in a queue.
    const count = Math.max(1, this.#steps)
    this.#onSample({
      newTokens: this.#newTokens / count,
      pairs: this.#pairs / count,
      seconds: seconds / count,
      at: endedAt,
    })
  }
}
