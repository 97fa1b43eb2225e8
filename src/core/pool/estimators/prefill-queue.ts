import { addAt, sumTo } from '../../fenwick-tree.ts'
import { BusyPeriod, type BusyPeriodStart, type OnSample } from '../../latency/busy-period.ts'
import { type BookedPrompt, JOIN_MS, PrefillSteps } from '../../latency/prefill-steps.ts'
import { UsualLength } from './usual-length.ts'

/** Prefill to book. */
export interface Prefill {
  readonly newTokens: number
  /** `prefillWork` of it. */
  readonly work: number
  /** Expected duration on an idle engine, seconds. */
  readonly seconds: number
  /** Whether its first token is visible, or the response does not stream. Absent: unknown. */
  readonly streams?: boolean | undefined
  /** Parallel responses. Absent: one. */
  readonly sequences?: number | undefined
  /** Whether the engine has other requests. Absent: no. */
  readonly isBusy?: boolean
}

/** Booked prefill without a first token. Made by `add`; ended once by `firstToken` or `abandon`. */
export interface QueuedPrefill extends Prefill {
  readonly bookedAt: number
  /** Predicted end. */
  readonly dueAt: number
  readonly micros: number
  /** Booking order on the engine. */
  readonly order: number
  readonly inSteps: BookedPrompt
  previous: QueuedPrefill | null
  next: QueuedPrefill | null
  /** Place in the prefix sums. */
  place: number
  /** Whether it counts as queued: neither ended nor assumed complete. */
  counts: boolean
  /** When it was assumed complete; null: never. */
  presumedAt: number | null
  ended: boolean
}

/** First tokens within this time are of one engine step, milliseconds. */
const SAME_STEP_MS = 3

/** New tokens after which a busy period is divided under load, so that its overlap with its neighbours is small. */
const BUSY_PERIOD_TOKENS = 8192

/**
 * A first token is overdue after this multiple of its step's expected time plus `OVERDUE_MICROS`. Under load many are
 * twice as late as predicted, and avoiding their engines costs more (agentic trace at 95 % load: mean TTFT 4.96 s
 * instead of 4.46 s).
 */
const OVERDUE_TIMES = 4

const OVERDUE_MICROS = 5e6

/** Time beyond the expected one that says nothing about the speed of an engine, microseconds. */
const USUAL_DELAY_MICROS = 1e5

/** Minimum bookings before places of ended prefills are reused. */
const FREE_PLACES = 64

/**
 * FIFO queue of booked prefills of one engine (model: README.md). Sums are whole microseconds, so an empty queue is
 * exactly zero. A first token completes all earlier prompts and starts the next one, which corrects wrong predictions.
 * Tens of thousands may end together when an engine dies, so ending one costs O(log n).
 */
export class PrefillQueue {
  #length = 0
  #newTokens = 0
  #work = 0
  /** Work left at `#asOf`, microseconds. */
  #leftMicros = 0
  #asOf = 0
  /** Microseconds of all queued prefills. */
  #pendingMicros = 0
  /** Prefix sums of microseconds by `place`, and the number of places in use. */
  #micros = new Float64Array(1)
  #placed = 0
  /** Head of the queue, and when the engine started it. */
  #head: QueuedPrefill | null = null
  #headSince = 0
  #first: QueuedPrefill | null = null
  #last: QueuedPrefill | null = null
  /**
   * Prefills booked on an empty queue, in order of booking. Earlier ones were complete, unless one of them produces a
   * first token later.
   */
  readonly #fresh: QueuedPrefill[] = []
  /** Prefills before this order without a visible first token are assumed complete. */
  #presumedBefore = 0
  #lastFirstTokenAt = 0
  #booked = 0
  readonly #teach: OnSample
  readonly #presumed: (at: number, prefill: Prefill) => void
  readonly #steps = new PrefillSteps()
  readonly #usual = new UsualLength()
  #busyPeriod: BusyPeriod

  /**
   * @param teach called with samples of prefill time
   * @param presumed called when a prefill without a visible first token is assumed complete and produces output
   */
  constructor(teach: OnSample, presumed: (at: number, prefill: Prefill) => void = () => {}) {
    this.#teach = teach
    this.#presumed = presumed
    this.#busyPeriod = new BusyPeriod({ at: 0, from: 0, atBooking: true }, teach)
  }

  get isEmpty(): boolean {
    return this.#head === null
  }

  /**
   * Assumes prefills without a visible first token complete when their time has passed. Call it before reading the
   * counts.
   */
  settle(now: number): void {
    for (let head = this.#head; head !== null && head.streams === false; head = this.#head) {
      if (this.#left(now) > this.#pendingMicros - head.micros) return
      this.#presume(head, now)
    }
  }

  /** Assumes earlier prefills without a visible first token complete: engines prefill in order. */
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

  /** Number of prompts without a first token. */
  get length(): number {
    return this.#length
  }

  /** Mean of `length` in the last minutes. */
  usualLength(now: number): number {
    return this.#usual.mean(now)
  }

  get newTokens(): number {
    return this.#newTokens
  }

  get work(): number {
    return this.#work
  }

  /**
   * Seconds until the engine would start a new prefill. `now` in milliseconds.
   * @param times how many times slower than booked the engine is
   */
  seconds(now: number, times = 1): number {
    const left = this.#left(now)
    const slowLeft = times === 1 ? left : times * Math.max(left, this.#pendingMicros - (this.#head?.micros ?? 0))
    return Math.max(slowLeft, this.#leftOverdue(now)) / 1e6
  }

  /** Multiple of its expected time that the engine has already been at its present step; at least 1. */
  timesSoFar(now: number): number {
    const head = this.#head
    if (head?.streams !== true) return 1
    const elapsed = (now - this.#headSince) * 1000 - USUAL_DELAY_MICROS
    return elapsed <= head.micros ? 1 : Math.max(1, elapsed / stepMicros(head))
  }

  /** Whether no later prompt is in the first step of this one. */
  isAlone({ bookedAt, next }: QueuedPrefill): boolean {
    return next === null || next.bookedAt > bookedAt + JOIN_MS
  }

  /**
   * Seconds until the first token of a further prompt beyond the wait and its prefill: engines prefill several prompts
   * in a step, and decode in it. 0: unknown.
   */
  delaySeconds({ newTokens, work, seconds }: Pick<Prefill, 'newTokens' | 'work' | 'seconds'>, now: number): number {
    if (this.#leftOverdue(now) > 0) return 0
    const inStepsS = this.#steps.seconds({ newTokens, pairs: work }, now)
    return inStepsS === null ? 0 : inStepsS - this.#left(now) / 1e6 - seconds
  }

  /**
   * Work left while the head is overdue: the prompts behind it are not prefilled either. The remaining time of the
   * head is estimated as its delay, and that of the others grows in proportion, microseconds.
   */
  #leftOverdue(now: number): number {
    const head = this.#head
    if (head?.streams !== true) return 0
    const elapsed = (now - this.#headSince) * 1000
    if (elapsed <= OVERDUE_MICROS) return 0
    const due = OVERDUE_TIMES * stepMicros(head) + OVERDUE_MICROS
    return elapsed <= due ? 0 : elapsed - due + (elapsed / due) * (this.#pendingMicros - head.micros)
  }

  /** Time since the predicted end of the oldest prefill, if its first token would be visible, ms. */
  overdueMs(now: number): number {
    return this.#head?.streams === true ? Math.max(0, now - this.#head.dueAt) : 0
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
      isBusy: prefill.isBusy === true,
      bookedAt: now,
      dueAt: now + (waitMicros + micros) / 1000,
      micros,
      order: this.#booked,
      inSteps: this.#steps.add(
        {
          newTokens: prefill.newTokens,
          pairs: prefill.work,
          isVisible: prefill.streams !== false,
          isBusy: prefill.isBusy === true,
        },
        now,
      ),
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
    this.#usual.set(this.#length, now)
    this.#newTokens += prefill.newTokens
    this.#work += prefill.work
    this.#setLeft(waitMicros + micros, now)
    return queued
  }

  /** Records a first token. Returns its busy period, to be closed when the request ends; null: already ended. */
  firstToken(queued: QueuedPrefill, now: number): BusyPeriod | null {
    if (queued.ended) return null
    this.#steps.firstToken(queued.inSteps, now)
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

  /** Records an end without a visible first token. No effect after `firstToken`. */
  abandon(queued: QueuedPrefill, now: number, wasPrefilled = false): void {
    if (queued.ended) return
    this.#steps.abandon(queued.inSteps, now)
    if (!wasPrefilled) this.#setStale(queued, now)
    const left = this.#left(now)
    // Of the remaining work, the prompts behind it come last.
    const own = queued.counts ? Math.min(queued.micros, Math.max(0, left - this.#microsAfter(queued))) : 0
    this.#setLeft(left - own, now)
    this.#remove(queued, now)
  }

  /** Starts a busy period at a booking on an idle engine if all earlier prefills were assumed complete. */
  #leaveSilent(queued: QueuedPrefill): void {
    const fresh = this.#fresh.findLast(({ order }) => order <= queued.order)
    if (fresh !== undefined && fresh.order > this.#busyPeriod.from)
      this.#begin({ at: fresh.bookedAt, from: fresh.order, atBooking: true })
  }

  /** Prefills with a first token belong to the previous busy period. */
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
    if (this.#fresh.at(-1) === queued) this.#fresh.pop()
    else {
      const fresh = this.#fresh.lastIndexOf(queued)
      if (fresh >= 0) this.#fresh.splice(fresh, 1)
    }
    queued.ended = true
    if (queued.previous === null) this.#first = queued.next
    else queued.previous.next = queued.next
    if (queued.next === null) this.#last = queued.previous
    else queued.next.previous = queued.previous
    // References are cleared: a caller that keeps this entry would otherwise keep all later ones alive.
    queued.previous = null
    queued.next = null
  }

  /** Removes it from the counts. */
  #uncount(queued: QueuedPrefill, now: number): void {
    if (!queued.counts) return
    queued.counts = false
    this.#length -= 1
    this.#usual.set(this.#length, now)
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

  /** Appends it to the prefix sums; if they are full, places of ended prefills are reused. */
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

  /** Microseconds of all queued prefills after it. */
  #microsAfter(queued: QueuedPrefill): number {
    return this.#pendingMicros - sumTo(queued.place, this.#micros)
  }

  /** Corrects prefills booked before `now`: the queued one was not complete, so they found a busy engine. */
  #setStale(queued: QueuedPrefill, now: number): void {
    if ((this.#fresh.at(-1)?.order ?? -1) <= queued.order) return
    const later = this.#fresh.splice(this.#fresh.findLastIndex(({ order }) => order <= queued.order) + 1)
    for (const one of later) if (one.bookedAt >= now) this.#fresh.push(one)
  }
}

/** Microseconds of the head and of the prefills that may share its engine step. */
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
