/**
 * Attention work of a prompt's prefill, in query-key pairs: the sum of i for i in C+1..P (vllm production-stack#670).
 * The cached count is clamped to the prompt: there, 20 cached of 10 gave -155 and won every comparison.
 */
export function prefillWork(promptTokens: number, cachedTokens: number): number {
  const cached = Math.min(Math.max(0, cachedTokens), promptTokens)
  return ((cached + 1 + promptTokens) * (promptTokens - cached)) / 2
}

/** A prefill as booked. */
export interface Prefill {
  readonly newTokens: number
  /** `prefillWork` of it. */
  readonly work: number
  /** Expected duration when the engine does nothing else. */
  readonly seconds: number
}

/** A booked prefill without a first token. Made by `add`; ended once, by `firstToken` or `abandon`. */
export interface QueuedPrefill extends Prefill {
  readonly bookedAt: number
  readonly micros: number
  /** Expected wait at booking: with none, silent ones before it had long been prefilled. */
  readonly waitMicros: number
  /** Someone before it gave up at an unknown point of its prefill. */
  blurred: boolean
  previous: QueuedPrefill | null
  next: QueuedPrefill | null
  ended: boolean
}

/**
 * Prefill work booked on one engine whose first token has not come. Sums are whole numbers, so that adding and
 * subtracting never drifts and an empty queue is exactly zero.
 *
 * Engines prefill first come first served, so a first token says more than its own end: nobody before it is still in
 * the way, and whoever comes next has just begun. That keeps `seconds` right where a prediction was wrong.
 */
export class PrefillQueue {
  #length = 0
  #newTokens = 0
  #work = 0
  /** What was left to do at `#asOf`, in microseconds. */
  #leftMicros = 0
  #asOf = 0
  #first: QueuedPrefill | null = null
  #last: QueuedPrefill | null = null
  #lastFirstTokenAt = 0

  get isEmpty(): boolean {
    return this.#first === null
  }

  /** Prompts without a first token. */
  get length(): number {
    return this.#length
  }

  get newTokens(): number {
    return this.#newTokens
  }

  get work(): number {
    return this.#work
  }

  /** Seconds until the engine would begin a prefill booked now. `now` in milliseconds. */
  seconds(now: number): number {
    return this.#left(now) / 1e6
  }

  add(prefill: Prefill, now: number): QueuedPrefill {
    const micros = Math.round(prefill.seconds * 1e6)
    const waitMicros = this.#left(now)
    const queued: QueuedPrefill = {
      newTokens: prefill.newTokens,
      work: prefill.work,
      seconds: prefill.seconds,
      bookedAt: now,
      micros,
      waitMicros,
      blurred: false,
      previous: this.#last,
      next: null,
      ended: false,
    }
    if (this.#last === null) this.#first = queued
    else this.#last.next = queued
    this.#last = queued
    this.#length += 1
    this.#newTokens += prefill.newTokens
    this.#work += prefill.work
    this.#setLeft(waitMicros + micros, now)
    return queued
  }

  /**
   * The first token came. Returns how long the prefill itself took, in seconds, or null where that cannot be told:
   * someone before it may still have been in its way, or gave up half way.
   */
  firstToken(queued: QueuedPrefill, now: number): number | null {
    if (queued.ended) return null
    const clear = (queued.previous === null || queued.waitMicros === 0) && !queued.blurred
    const began = Math.max(queued.bookedAt, this.#lastFirstTokenAt)
    this.#setLeft(microsAfter(queued), now)
    this.#lastFirstTokenAt = now
    this.#remove(queued)
    return clear ? Math.max(0, now - began) / 1000 : null
  }

  /** It ended without a first token we saw. Harmless after `firstToken`. */
  abandon(queued: QueuedPrefill, now: number): void {
    if (queued.ended) return
    const left = this.#left(now)
    // Of what is left, those behind it come last and it comes just before them.
    const own = Math.min(queued.micros, Math.max(0, left - microsAfter(queued)))
    this.#setLeft(left - own, now)
    if (own > 0) for (let later = queued.next; later !== null; later = later.next) later.blurred = true
    this.#remove(queued)
  }

  #left(now: number): number {
    return Math.max(0, this.#leftMicros - Math.max(0, now - this.#asOf) * 1000)
  }

  #setLeft(micros: number, now: number): void {
    this.#leftMicros = micros
    this.#asOf = now
  }

  #remove(queued: QueuedPrefill): void {
    queued.ended = true
    if (queued.previous === null) this.#first = queued.next
    else queued.previous.next = queued.next
    if (queued.next === null) this.#last = queued.previous
    else queued.next.previous = queued.previous
    this.#length -= 1
    this.#newTokens -= queued.newTokens
    this.#work -= queued.work
    if (this.#first === null) this.#leftMicros = 0
  }
}

function microsAfter(queued: QueuedPrefill): number {
  let micros = 0
  for (let later = queued.next; later !== null; later = later.next) micros += later.micros
  return micros
}
