import { STEP_TOKENS } from './cost-model.ts'

/** What one prompt's prefill came to. */
export interface PrefillSize {
  readonly newTokens: number
  /** Query-key pairs. */
  readonly pairs: number
}

/** The mean prompt of a stretch and what it took. */
export interface BusyPeriodSample extends PrefillSize {
  readonly seconds: number
  /** When the stretch ended, milliseconds. */
  readonly at: number
}

export type OnSample = (sample: BusyPeriodSample) => void

export interface BusyPeriodStart {
  /** Milliseconds. */
  readonly at: number
  /** Booking order of the first prompt that belongs to it. */
  readonly from: number
  /** Did it begin with a booking, so that its time has a network round trip in it, or with another's first token? */
  readonly atBooking: boolean
}

/**
 * Prompts an engine prefilled back to back: from a booking that found nothing queued to the first token that left
 * nothing, or, under load, between two first tokens. What they took together is known. What one of them took is not:
 * engines batch, so that several first tokens come out of one step, which then is nobody's own.
 */
export class BusyPeriod {
  readonly #start: BusyPeriodStart
  readonly #teach: OnSample
  /** Highest booking order among its prompts. */
  #last: number
  #endedAt: number | null = null
  #prompts = 0
  #bookedTokens = 0
  #isReported = 0
  #spoiled = false
  #steps = 0
  #newTokens = 0
  #pairs = 0
  #rttS = 0

  /** @param teach called at most once, when all its prompts have ended and it has. */
  constructor(start: BusyPeriodStart, teach: OnSample) {
    this.#start = start
    this.#teach = teach
    this.#last = start.from - 1
  }

  /** Booking order of its first prompt. */
  get from(): number {
    return this.#start.from
  }

  get prompts(): number {
    return this.#prompts
  }

  /** New tokens of its prompts, as believed when they were booked. */
  get bookedTokens(): number {
    return this.#bookedTokens
  }

  /** Booking order of whoever comes after it. */
  get next(): number {
    return this.#last + 1
  }

  /** A prompt's first token came. */
  add(order: number, newTokens: number): void {
    this.#prompts += 1
    this.#bookedTokens += newTokens
    this.#last = Math.max(this.#last, order)
  }

  /** No more prompts belong to it. */
  end(at: number): void {
    this.#endedAt = at
    // Somebody between them showed no first token, or a straggler did: its time and its sums differ in what they hold.
    if (this.#prompts !== this.next - this.#start.from) this.#spoiled = true
    this.#conclude()
  }

  /** One of its prompts has ended and says what its prefill came to; null: it cannot tell, so nobody can. */
  record(size: PrefillSize | null, rttS: number): void {
    this.#isReported += 1
    this.#rttS = rttS
    if (size === null) this.#spoiled = true
    else {
      this.#newTokens += size.newTokens
      this.#pairs += size.pairs
      this.#steps += Math.min(1, size.newTokens / STEP_TOKENS)
    }
    this.#conclude()
  }

  #conclude(): void {
    const endedAt = this.#endedAt
    if (endedAt === null || this.#isReported < this.#prompts || this.#spoiled) return
    const seconds = (endedAt - this.#start.at) / 1000 - (this.#start.atBooking ? this.#rttS : 0)
    // Small prompts share steps, as they do in a queue.
    const count = Math.max(1, this.#steps)
    this.#teach({
      newTokens: this.#newTokens / count,
      pairs: this.#pairs / count,
      seconds: seconds / count,
      at: endedAt,
    })
  }
}
