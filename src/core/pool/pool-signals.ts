import type { KvEventDelta, KvEventDeltaState } from '../kv-events/delta.ts'
import type { Signal } from '../routing/policy.ts'
import type { BookingRef, SignalProvider, EngineRef, Forecast, LegDone, Reading } from './signal-provider.ts'
import type { EngineEstimate } from '../contract/region-digest.ts'
import type { Admission, EngineDigest, EngineStats, Outcome, PoolConfig, StageTimes } from '../contract/contract.ts'

/** All books of a pool as one: tells each what happened and asks the one that knows. */
export class PoolBooks {
  readonly #all: readonly SignalProvider[]
  /** The place in the list of those who answer. */
  readonly #answerer = new Map<Signal, number>()

  constructor(all: readonly SignalProvider[]) {
    this.#all = all
    for (const [place, books] of all.entries()) for (const signal of books.answers) this.#answerer.set(signal, place)
  }

  configure(pool: PoolConfig): void {
    for (const books of this.#all) books.configure(pool)
  }

  engineAdded(engine: EngineRef, now: number): void {
    for (const books of this.#all) books.engineAdded(engine, now)
  }

  engineForgotten(engine: EngineRef): void {
    for (const books of this.#all) books.engineForgotten(engine)
  }

  revived(engine: EngineRef): void {
    for (const books of this.#all) books.revived?.(engine)
  }

  observed(engine: EngineRef, stats: EngineStats, now: number): void {
    for (const books of this.#all) books.observed(engine, stats, now)
  }

  /** As the one who keeps an index answers. */
  fed(engine: EngineRef, feed: KvEventDelta, now: number): KvEventDeltaState {
    return (
      this.#all.map((books) => books.applyKvEvents?.(engine, feed, now)).find((state) => state !== undefined) ??
      'unknown'
    )
  }

  /** @param reading of the choice that was made just now; absent: there was none. */
  book(booking: BookingRef, now: number, reading?: PoolReading): void {
    for (const [place, books] of this.#all.entries()) books.book(booking, now, reading?.startedBy(place))
  }

  legDone(booking: BookingRef, done: LegDone, now: number): void {
    for (const books of this.#all) books.legDone(booking, done, now)
  }

  firstToken(booking: BookingRef, stages: StageTimes, now: number): void {
    for (const books of this.#all) books.firstToken(booking, stages, now)
  }

  progress(booking: BookingRef, outputBlocks: number, now: number): void {
    for (const books of this.#all) books.progress?.(booking, outputBlocks, now)
  }

  release(booking: BookingRef, outcome: Outcome, now: number): void {
    for (const books of this.#all) books.release(booking, outcome, now)
  }

  read(admission: Admission, now: number, engines: readonly EngineRef[]): PoolReading {
    return new PoolReading(this.#all, this.#answerer, { admission, now, engines })
  }

  /** As the one who knows its queue answers; null: nobody does. */
  prospect(engine: EngineRef, now: number): EngineEstimate | null {
    for (const books of this.#all) {
      const found = books.prospect?.(engine, now)
      if (found !== undefined) return found
    }
    return null
  }

  /** As the first that keeps blocks answers. */
  sample(limit: number): Uint32Array {
    return this.#all.find((books) => books.sample !== undefined)?.sample?.(limit) ?? new Uint32Array(0)
  }

  digest(engine: EngineRef, now: number): Partial<EngineDigest> {
    return Object.assign({}, ...this.#all.map((books) => books.digest(engine, now)))
  }

  /** One entry per set of books, in order. */
  snapshot(): readonly unknown[] {
    return this.#all.map((books) => books.snapshot?.())
  }

  restore(data: unknown): void {
    if (!Array.isArray(data)) return
    for (const [index, books] of this.#all.entries())
      if (data[index] !== null && data[index] !== undefined) books.restore?.(data[index])
  }
}

/** Readings of all books for one request; a set of books nobody asks is never started. */
export class PoolReading {
  readonly #all: readonly SignalProvider[]
  readonly #answerer: ReadonlyMap<Signal, number>
  readonly #request: Asked
  /** By the books' place in the list. */
  readonly #started: (Reading | undefined)[] = []

  constructor(all: readonly SignalProvider[], answerer: ReadonlyMap<Signal, number>, request: Asked) {
    this.#all = all
    this.#answerer = answerer
    this.#request = request
  }

  /** Writes the signal into the engines' seats; NaN where it is missing. false: none of the books answers for it. */
  fill(signal: Signal): boolean {
    const books = this.#answerer.get(signal)
    if (books !== undefined) this.#reading(books).fill(signal)
    return books !== undefined
  }

  forecast(engine: EngineRef): Forecast {
    for (let books = 0; books < this.#all.length; books++) {
      const forecast = this.#reading(books).forecast?.(engine)
      if (forecast !== undefined) return forecast
    }
    return { ttftMs: null, cachedTokens: null }
  }

  /** For a choice that others made: all that is known is read now. */
  started(): this {
    for (let books = 0; books < this.#all.length; books++) this.#reading(books)
    return this
  }

  /** What the books at that place of the list read, if anybody asked them. */
  startedBy(books: number): Reading | undefined {
    return this.#started[books]
  }

  #reading(books: number): Reading {
    const { admission, now, engines } = this.#request
    return (this.#started[books] ??= this.#all[books]!.read(admission, now, engines))
  }
}

interface Asked {
  readonly admission: Admission
  readonly now: number
  readonly engines: readonly EngineRef[]
}
