import { PrefillStretch, type StretchStart, type Teach } from '../../../src/core/cluster/prefill-stretch.ts'
import type { Prefill } from '../../../src/core/cluster/prefill-work.ts'

export interface NaivePrefill extends Prefill {
  readonly bookedAt: number
  readonly micros: number
  readonly order: number
  previous: NaivePrefill | null
  next: NaivePrefill | null
  isFresh: boolean
  counts: boolean
  presumedAt: number | null
  ended: boolean
}

/** First tokens this close together came out of one step of the engine. */
const SAME_STEP_MS = 3
/** Under load a stretch is cut when it holds this many new tokens: what it shares with its neighbours is then little. */
const STRETCH_TOKENS = 8192
/**
 * A first token is overdue at so many times what all prompts of its step were expected to take, and this much later. Under load many
 * are twice as late as was believed: to shun their engines for that costs more (agentic trace at 95 %: 4.96 s in the mean, not 4.46).
 */
const OVERDUE_TIMES = 4
const OVERDUE_MICROS = 5e6

/** What PrefillQueue must say, written the slow and obvious way: whoever ends is compared with all that wait. */
export class NaivePrefillQueue {
  #length = 0
  #newTokens = 0
  #work = 0
  /** What was left to do at `#asOf`, in microseconds. */
  #leftMicros = 0
  #asOf = 0
  /** Micros of all that count. */
  #pendingMicros = 0
  /** The first that counts, and since when the engine is believed to be at it. */
  #head: NaivePrefill | null = null
  #headSince = 0
  #first: NaivePrefill | null = null
  #last: NaivePrefill | null = null
  #lastFirstTokenAt = 0
  #booked = 0
  readonly #teach: Teach
  readonly #presumed: (at: number, prefill: Prefill) => void
  #stretch: PrefillStretch

  /**
   * @param teach told how long prompts took, once that is known.
   * @param presumed told when one that shows no first token is taken for prefilled: from then on it produces output.
   */
  constructor(teach: Teach, presumed: (at: number, prefill: Prefill) => void = () => {}) {
    this.#teach = teach
    this.#presumed = presumed
    this.#stretch = new PrefillStretch({ at: 0, from: 0, atBooking: true }, teach)
  }

  get isEmpty(): boolean {
    return this.#head === null
  }

  /** Call it before the counts below are read: who shows no first token counts until its time has passed. */
  settle(now: number): void {
    for (let head = this.#head; head !== null && head.shows === false; head = this.#head) {
      if (this.#left(now) > this.#pendingMicros - head.micros) return
      this.#presume(head, now)
    }
  }

  #presume(silent: NaivePrefill, now: number): void {
    if (!silent.counts) return
    this.#uncount(silent, now)
    silent.presumedAt = now
    this.#presumed(now, silent)
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
    return Math.max(this.#left(now), this.#leftOverdue(now)) / 1e6
  }

  /**
   * Where the first token that is waited for does not come, nobody behind it was prefilled either, and the engine is at
   * least so many times slower than believed as it is late. How much longer it takes nobody knows: as much as it is late.
   */
  #leftOverdue(now: number): number {
    const head = this.#head
    if (head?.shows !== true) return 0
    const elapsed = (now - this.#headSince) * 1000
    if (elapsed <= OVERDUE_MICROS) return 0
    const due = OVERDUE_TIMES * stepMicros(head) + OVERDUE_MICROS
    return elapsed <= due ? 0 : elapsed - due + (elapsed / due) * (this.#pendingMicros - head.micros)
  }

  add(prefill: Prefill, now: number): NaivePrefill {
    const micros = Math.round(prefill.seconds * 1e6)
    this.settle(now)
    const waitMicros = this.#left(now)
    if (this.#first === null) this.#begin({ at: now, from: this.#booked, atBooking: true })
    const queued: NaivePrefill = {
      newTokens: prefill.newTokens,
      work: prefill.work,
      seconds: prefill.seconds,
      shows: prefill.shows,
      sequences: prefill.sequences,
      bookedAt: now,
      micros,
      order: this.#booked,
      previous: this.#last,
      next: null,
      isFresh: waitMicros === 0,
      counts: true,
      presumedAt: null,
      ended: false,
    }
    if (this.#last === null) this.#first = queued
    else this.#last.next = queued
    this.#last = queued
    if (this.#head === null) this.#setHead(queued, now)
    this.#booked += 1
    this.#pendingMicros += micros
    this.#length += 1
    this.#newTokens += prefill.newTokens
    this.#work += prefill.work
    this.#setLeft(waitMicros + micros, now)
    return queued
  }

  /** The first token came. Returns the stretch it belongs to, to be told when the request has ended; null: the prefill had ended before. */
  firstToken(queued: NaivePrefill, now: number): PrefillStretch | null {
    if (queued.ended) return null
    this.#leaveSilent(queued)
    const long = this.#stretch.bookedTokens >= STRETCH_TOKENS
    if (long && now - this.#lastFirstTokenAt > SAME_STEP_MS) this.#begin({ at: this.#lastFirstTokenAt, from: this.#stretch.next, atBooking: false })
    const stretch = this.#stretch
    stretch.add(queued.order, queued.newTokens)
    setStale(queued, now)
    // Engines prefill in order: whoever before it shows none has been prefilled.
    for (let earlier = queued.previous; earlier !== null; earlier = earlier.previous) if (earlier.shows === false) this.#presume(earlier, now)
    this.#setLeft(microsAfter(queued), now)
    this.#lastFirstTokenAt = now
    this.#remove(queued, now)
    this.#headSince = now
    if (this.#first === null) this.#begin({ at: now, from: this.#booked, atBooking: true })
    return stretch
  }

  /** It ended without a first token we saw, prefilled or not. Harmless after `firstToken`. */
  abandon(queued: NaivePrefill, now: number, wasPrefilled = false): void {
    if (queued.ended) return
    if (!wasPrefilled) setStale(queued, now)
    const left = this.#left(now)
    // Of what is left, those behind it come last and it comes just before them.
    const own = queued.counts ? Math.min(queued.micros, Math.max(0, left - microsAfter(queued))) : 0
    this.#setLeft(left - own, now)
    this.#remove(queued, now)
  }

  /**
   * Before a first token: where the engine had begun anew for it, with silent ones before it (answers that are no streams)
   * long prefilled, so begins a stretch. That the engine is slower than believed looks the same while they are booked.
   */
  #leaveSilent(queued: NaivePrefill): void {
    let fresh: NaivePrefill | null = queued
    while (fresh !== null && fresh.order > this.#stretch.from && !fresh.isFresh) fresh = fresh.previous
    if (fresh !== null && fresh.order > this.#stretch.from) this.#begin({ at: fresh.bookedAt, from: fresh.order, atBooking: true })
  }

  /** Whoever has shown a first token by now belongs to the stretch before. */
  #begin(start: StretchStart): void {
    if (this.#stretch.prompts > 0) this.#stretch.end(this.#lastFirstTokenAt)
    this.#stretch = new PrefillStretch(start, this.#teach)
  }

  #left(now: number): number {
    return Math.max(0, this.#leftMicros - Math.max(0, now - this.#asOf) * 1000)
  }

  #setLeft(micros: number, now: number): void {
    this.#leftMicros = micros
    this.#asOf = now
  }

  #remove(queued: NaivePrefill, now: number): void {
    this.#uncount(queued, now)
    queued.ended = true
    if (queued.previous === null) this.#first = queued.next
    else queued.previous.next = queued.next
    if (queued.next === null) this.#last = queued.previous
    else queued.next.previous = queued.previous
    // Who asked for it keeps it until its request ends, and would keep everyone after it.
    queued.previous = null
    queued.next = null
  }

  /** It is waited for no more. */
  #uncount(queued: NaivePrefill, now: number): void {
    if (!queued.counts) return
    queued.counts = false
    this.#length -= 1
    this.#newTokens -= queued.newTokens
    this.#work -= queued.work
    this.#pendingMicros -= queued.micros
    if (queued !== this.#head) return
    let next = queued.next
    while (next !== null && !next.counts) next = next.next
    this.#setHead(next, now)
    if (next === null) this.#leftMicros = 0
  }

  #setHead(head: NaivePrefill | null, now: number): void {
    this.#head = head
    this.#headSince = now
  }
}

/** It was not prefilled before this moment: those who came after it, until then, found the engine at work. */
function setStale(queued: NaivePrefill, now: number): void {
  for (let later = queued.next; later !== null && later.bookedAt < now; later = later.next) later.isFresh = false
}

function microsAfter(queued: NaivePrefill): number {
  let micros = 0
  for (let later = queued.next; later !== null; later = later.next) if (later.counts) micros += later.micros
  return micros
}

/** Of the first that counts, and of those that may come out of the same step of the engine. */
function stepMicros(head: NaivePrefill): number {
  let micros = 0
  let tokens = 0
  for (let one: NaivePrefill | null = head; one !== null && (one === head || tokens + one.newTokens <= STRETCH_TOKENS); one = one.next) {
    tokens += one.newTokens
    micros += one.micros
  }
  return micros
}
