import { BusyPeriod, type BusyPeriodStart, type OnSample } from '../latency/busy-period.ts'

/**
 * Sums up to any place of a row of whole numbers, in steps that grow with the logarithm of its length (a Fenwick tree).
 * As long as all of it is below 2^53, nothing drifts. Places begin at 1: the row is as long as it has them, and one longer.
 */
export function addAt(place: number, by: number, sums: Float64Array): void {
  for (let at = place; at < sums.length; at += at & -at) sums[at]! += by
}

/** With that at `place`. */
export function sumTo(place: number, sums: Float64Array): number {
  let sum = 0
  for (let at = place; at > 0; at &= at - 1) sum += sums[at]!
  return sum
}

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
  /** Will its first token be seen, or does its answer come as a whole? Absent: not known. */
  readonly streams?: boolean | undefined
  /** Answers that begin with it. Absent: one. */
  readonly sequences?: number | undefined
}

/** A booked prefill without a first token. Made by `add`; ended once, by `firstToken` or `abandon`. */
export interface QueuedPrefill extends Prefill {
  readonly bookedAt: number
  readonly micros: number
  /** Grows with every booking on the engine. */
  readonly order: number
  previous: QueuedPrefill | null
  next: QueuedPrefill | null
  /** Its place in the queue's sums. */
  place: number
  /** It is still waited for: neither ended nor, where it shows no first token, taken for prefilled by now. */
  counts: boolean
  /** When it was taken for prefilled; null: it was not. */
  presumedAt: number | null
  ended: boolean
}

/** First tokens this close together came out of one step of the engine. */
const SAME_STEP_MS = 3
/** Under load a busyPeriod is cut when it holds this many new tokens: what it shares with its neighbours is then little. */
const BUSY_PERIOD_TOKENS = 8192
/**
 * A first token is overdue at so many times what all prompts of its step were expected to take, and this much later. Under load many
 * are twice as late as was believed: to shun their engines for that costs more (agentic trace at 95 %: 4.96 s in the mean, not 4.46).
 */
const OVERDUE_TIMES = 4
const OVERDUE_MICROS = 5e6
/** So many are booked at least before the others' places are given out anew. */
const FREE_PLACES = 64

/**
 * Prefill work booked on one engine whose first token has not come. Sums are whole numbers, so that adding and
 * subtracting never drifts and an empty queue is exactly zero.
 *
 * Engines prefill first come first served, so a first token says more than its own end: nobody before it is still in
 * the way, and whoever comes next has just begun. That keeps `seconds` right where a prediction was wrong.
 *
 * Tens of thousands may wait, and end together when their engine dies, so nobody's end looks at all others.
 */
export class PrefillQueue {
  #length = 0
  #newTokens = 0
  #work = 0
  /** What was left to do at `#asOf`, in microseconds. */
  #leftMicros = 0
  #asOf = 0
  /** Micros of all that count. */
  #pendingMicros = 0
  /** The same up to each, by `place`, and how many places are taken. */
  #micros = new Float64Array(1)
  #placed = 0
  /** The first that counts, and since when the engine is believed to be at it. */
  #head: QueuedPrefill | null = null
  #headSince = 0
  #first: QueuedPrefill | null = null
  #last: QueuedPrefill | null = null
  /**
   * Nothing was believed left to do when they came: those before them had been prefilled, unless one of them shows
   * otherwise. In the order in which they came.
   */
  readonly #fresh: QueuedPrefill[] = []
  /** Whoever was booked before this and shows no first token is taken for prefilled. */
  #presumedBefore = 0
  #lastFirstTokenAt = 0
  #booked = 0
  readonly #teach: OnSample
  readonly #presumed: (at: number, prefill: Prefill) => void
  #busyPeriod: BusyPeriod

  /**
   * @param teach told how long prompts took, once that is known.
   * @param presumed told when one that shows no first token is taken for prefilled: from then on it produces output.
   */
  constructor(teach: OnSample, presumed: (at: number, prefill: Prefill) => void = () => {}) {
    this.#teach = teach
    this.#presumed = presumed
    this.#busyPeriod = new BusyPeriod({ at: 0, from: 0, atBooking: true }, teach)
  }

  get isEmpty(): boolean {
    return this.#head === null
  }

  /** Call it before the counts below are read: who shows no first token counts until its time has passed. */
  settle(now: number): void {
    for (let head = this.#head; head !== null && head.streams === false; head = this.#head) {
      if (this.#left(now) > this.#pendingMicros - head.micros) return
      this.#presume(head, now)
    }
  }

  /** Engines prefill in order: whoever before it shows none has been prefilled. */
  #presumeBefore(queued: QueuedPrefill, now: number): void {
    for (
      let earlier = queued.previous;
      earlier !== null && earlier.order >= this.#presumedBefore;
      earlier = earlier.previous
    ) {
      if (earlier.streams === false) this.#presume(earlier, now)
    }
    this.#presumedBefore = Math.max(this.#presumedBefore, queued.order)
  }

  #presume(silent: QueuedPrefill, now: number): void {
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
    if (head?.streams !== true) return 0
    const elapsed = (now - this.#headSince) * 1000
    if (elapsed <= OVERDUE_MICROS) return 0
    const due = OVERDUE_TIMES * stepMicros(head) + OVERDUE_MICROS
    return elapsed <= due ? 0 : elapsed - due + (elapsed / due) * (this.#pendingMicros - head.micros)
  }

  add(prefill: Prefill, now: number): QueuedPrefill {
    const micros = Math.round(prefill.seconds * 1e6)
    this.settle(now)
    const waitMicros = this.#left(now)
    if (this.#first === null) this.#begin({ at: now, from: this.#booked, atBooking: true })
    const queued: QueuedPrefill = {
      newTokens: prefill.newTokens,
      work: prefill.work,
      seconds: prefill.seconds,
      streams: prefill.streams,
      sequences: prefill.sequences,
      bookedAt: now,
      micros,
      order: this.#booked,
      previous: this.#last,
      next: null,
      place: 0,
      counts: true,
      presumedAt: null,
      ended: false,
    }
    if (this.#last === null) this.#first = queued
    else this.#last.next = queued
    this.#last = queued
    if (waitMicros === 0) this.#fresh.push(queued)
    if (this.#head === null) this.#setHead(queued, now)
    this.#place(queued)
    this.#booked += 1
    this.#pendingMicros += micros
    this.#length += 1
    this.#newTokens += prefill.newTokens
    this.#work += prefill.work
    this.#setLeft(waitMicros + micros, now)
    return queued
  }

  /** The first token came. Returns the busyPeriod it belongs to, to be told when the request has ended; null: the prefill had ended before. */
  firstToken(queued: QueuedPrefill, now: number): BusyPeriod | null {
    if (queued.ended) return null
    this.#leaveSilent(queued)
    const long = this.#busyPeriod.bookedTokens >= BUSY_PERIOD_TOKENS
    if (long && now - this.#lastFirstTokenAt > SAME_STEP_MS)
      this.#begin({ at: this.#lastFirstTokenAt, from: this.#busyPeriod.next, atBooking: false })
    const busyPeriod = this.#busyPeriod
    busyPeriod.add(queued.order, queued.newTokens)
    this.#setStale(queued, now)
    this.#presumeBefore(queued, now)
    this.#setLeft(this.#microsAfter(queued), now)
    this.#lastFirstTokenAt = now
    this.#remove(queued, now)
    this.#headSince = now
    if (this.#first === null) this.#begin({ at: now, from: this.#booked, atBooking: true })
    return busyPeriod
  }

  /** It ended without a first token we saw, prefilled or not. Harmless after `firstToken`. */
  abandon(queued: QueuedPrefill, now: number, wasPrefilled = false): void {
    if (queued.ended) return
    if (!wasPrefilled) this.#setStale(queued, now)
    const left = this.#left(now)
    // Of what is left, those behind it come last and it comes just before them.
    const own = queued.counts ? Math.min(queued.micros, Math.max(0, left - this.#microsAfter(queued))) : 0
    this.#setLeft(left - own, now)
    this.#remove(queued, now)
  }

  /**
   * Before a first token: where the engine had begun anew for it, with silent ones before it (answers that are no streams)
   * long prefilled, so begins a busyPeriod. That the engine is slower than believed looks the same while they are booked.
   */
  #leaveSilent(queued: QueuedPrefill): void {
    const fresh = this.#fresh.findLast(({ order }) => order <= queued.order)
    if (fresh !== undefined && fresh.order > this.#busyPeriod.from)
      this.#begin({ at: fresh.bookedAt, from: fresh.order, atBooking: true })
  }

  /** Whoever has shown a first token by now belongs to the busyPeriod before. */
  #begin(start: BusyPeriodStart): void {
    if (this.#busyPeriod.prompts > 0) this.#busyPeriod.end(this.#lastFirstTokenAt)
    this.#busyPeriod = new BusyPeriod(start, this.#teach)
  }

  #left(now: number): number {
    return Math.max(0, this.#leftMicros - Math.max(0, now - this.#asOf) * 1000)
  }

  #setLeft(micros: number, now: number): void {
    this.#leftMicros = micros
    this.#asOf = now
  }

  #remove(queued: QueuedPrefill, now: number): void {
    this.#uncount(queued, now)
    const fresh = this.#fresh.lastIndexOf(queued)
    if (fresh >= 0) this.#fresh.splice(fresh, 1)
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
  #uncount(queued: QueuedPrefill, now: number): void {
    if (!queued.counts) return
    queued.counts = false
    this.#length -= 1
    this.#newTokens -= queued.newTokens
    this.#work -= queued.work
    this.#pendingMicros -= queued.micros
    addAt(queued.place, -queued.micros, this.#micros)
    if (queued !== this.#head) return
    let next = queued.next
    while (next !== null && !next.counts) next = next.next
    this.#setHead(next, now)
    if (next === null) this.#leftMicros = 0
  }

  #setHead(head: QueuedPrefill | null, now: number): void {
    this.#head = head
    this.#headSince = now
  }

  /** It has the place after the last one; where none is left, those who have ended give up theirs. */
  #place(queued: QueuedPrefill): void {
    if (this.#placed + 1 === this.#micros.length) {
      let length = FREE_PLACES
      for (let one: QueuedPrefill | null = queued; one !== null; one = one.previous) length += 2
      this.#micros = new Float64Array(length)
      this.#placed = 0
      for (let one = this.#first!; one !== queued; one = one.next!) this.#place(one)
    }
    queued.place = ++this.#placed
    if (queued.counts) addAt(queued.place, queued.micros, this.#micros)
  }

  /** Of all that count and come after it. */
  #microsAfter(queued: QueuedPrefill): number {
    return this.#pendingMicros - sumTo(queued.place, this.#micros)
  }

  /** It was not prefilled before this moment: those who came after it, until then, found the engine at work. */
  #setStale(queued: QueuedPrefill, now: number): void {
    const later = this.#fresh.splice(this.#fresh.findLastIndex(({ order }) => order <= queued.order) + 1)
    for (const one of later) if (one.bookedAt >= now) this.#fresh.push(one)
  }
}

/** Of the first that counts, and of those that may come out of the same step of the engine. */
function stepMicros(head: QueuedPrefill): number {
  let micros = 0
  let tokens = 0
  for (
    let one: QueuedPrefill | null = head;
    one !== null && (one === head || tokens + one.newTokens <= BUSY_PERIOD_TOKENS);
    one = one.next
  ) {
    tokens += one.newTokens
    micros += one.micros
  }
  return micros
}
