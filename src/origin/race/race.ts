/**
 * Races: a request is also sent to a second engine, because its first byte is late (hedge.ts, if configured) or because
 * its engine is wedged (rescue.ts). The engine whose first byte comes first answers, the other attempt is aborted. Both
 * are booked; the end of the loser is no evidence about its engine.
 */
import { AbortListeners } from '../../abort-listeners.ts'
import { endedAs } from '../../core/contract/outcome.ts'
import type { AbortSignalLike } from '../../ports/abort-signal.ts'
import type { OriginAnswer } from '../../ports/origin.ts'
import type { AcquiredPlacement } from '../placement/acquired-placement.ts'
import type { AttemptContext, FailedOutcome, AttemptStep, FailedAttempt, RaceEntry } from '../attempt-context.ts'
import { hasOtherEngine } from '../pool-route.ts'
import { StageTimer } from '../stage-timer.ts'
import { isOwnEngine, placeSecond, type SecondKind } from './second-engine.ts'

/** Asks for a second engine while the first attempt of a race runs. */
export interface RaceTrigger {
  /** The answer of a stream has its first byte. `other`: the attempt that runs beside it, or null. */
  began(winner: RaceStart, other: RaceStart | null): void
  /** No second engine is needed any more. */
  end(): void
}

/** Start of one attempt. */
export interface RaceStart {
  readonly startedAt: number
  /** Predicted time to the first byte. null: unknown */
  readonly predictedMs: number | null
}

/** A race as its triggers see it. */
export interface OpenRace {
  readonly first: AttemptContext
  /** No engine has answered, and the first one may: a second one would be of use if none has the request. */
  readonly isOpen: boolean
  /**
   * Asks for a second engine, unless one is asked for already or is of no use any more. Resolves when none was booked,
   * or when the attempt on it has ended. Never rejects.
   */
  askSecond(kind: SecondKind): Promise<void>
}

/** Also sends an attempt to a second engine if a trigger asks for one. */
export const raced =
  (next: SingleAttempt, triggers: readonly ((race: OpenRace) => RaceTrigger)[]): AttemptStep =>
  (attempt) =>
    mayRace(attempt) ? new Race(attempt, next).run(triggers) : next(attempt)

type RaceOutcome = Response | { readonly failures: readonly FailedAttempt[] }

/** An attempt on one engine. */
type SingleAttempt = (attempt: AttemptContext) => Promise<Response | FailedOutcome>

/** Whether a second engine may be asked while the attempt still runs. @testing */
export function mayRace({ exchange, placed }: AttemptContext): boolean {
  const { engine, placement, route } = placed
  const isAlone = !hasOtherEngine(route, engine)
  return exchange.pinned === null && !isAlone && placement.kind === 'whole' && isOwnEngine(engine)
}

/**
 * `alone`: only the first engine has the request. `asking`: a second one is asked for. `sent`: a second one has the
 * request, or has failed and no other one follows. `over`: the client has an answer, or gets none.
 */
type RacePhase = 'alone' | 'asking' | 'sent' | 'over'

/**
 * Outcome of a second engine that was asked for. null: not sent, or not needed any more. Rejects only if the client
 * disconnects.
 */
type SecondOutcome = Promise<Response | FailedAttempt | null>

const NONE: readonly never[] = []

/** Runs one attempt of a request, and another one beside it if a trigger asks for a second engine. */
class Race implements OpenRace {
  readonly #single: SingleAttempt
  readonly first: AttemptContext
  readonly #firstEntry: RacingAttempt
  readonly #earlier: FailedOutcome[]
  #resolve!: (outcome: RaceOutcome) => void
  #triggers: readonly RaceTrigger[] = NONE
  #phase: RacePhase = 'alone'
  /** null: none is asked for or has the request. */
  #second: SecondOutcome | null = null
  /** null: the request was not sent there. */
  #secondEntry: RacingAttempt | null = null
  /** The hedge, which may have failed. null: the request was not hedged. */
  #hedge: RacingAttempt | null = null
  /** Failures of second engines after which another one may be asked for. */
  #failedSeconds: readonly FailedAttempt[] = NONE
  /** Bookings so far; that of a hedge counts from its request. */
  booked: number

  constructor(first: AttemptContext, single: SingleAttempt) {
    this.#single = single
    this.first = first
    this.#firstEntry = new RacingAttempt(this, first)
    this.#earlier = [...first.earlier]
    this.booked = first.earlier.length + 1
  }

  /** Resolves with the response for the client, or with all failures if another engine may try. Throws if none may. */
  run(triggers: readonly ((race: OpenRace) => RaceTrigger)[]): Promise<RaceOutcome> {
    this.#triggers = triggers.map((start) => start(this))
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      // The winner's response does not wait for the end of the loser.
      this.#enter(this.#firstEntry, this.first).then(
        (outcome) => resolve(this.#ended(outcome)),
        (error: unknown) => {
          this.#end(null)
          reject(error)
        },
      )
    })
  }

  get isOpen(): boolean {
    return this.#phase !== 'over' && !this.#firstEntry.hasFailed && !this.first.exchange.signal.aborted
  }

  async askSecond(kind: SecondKind): Promise<void> {
    if (this.#phase === 'alone' && this.isOpen) {
      this.#phase = 'asking'
      this.#second = this.#runSecond(kind)
    }
    // The client left: the first attempt ends the race.
    await this.#second?.catch(() => {})
  }

  /** The first entry that claims the response answers. A second engine's refusal does not, while the first may. */
  claim(
    entry: RacingAttempt,
    { status, sse }: Pick<OriginAnswer, 'status' | 'sse'>,
    early: boolean,
  ): 'won' | 'lost' | 'refused' {
    if (entry.lost) return 'lost'
    const isHedge = entry === this.#hedge
    if (status >= 300 && isHedge && !this.#firstEntry.hasFailed) return 'refused'
    if (sse && status < 300 && !early) {
      const other = entry === this.#firstEntry ? this.#secondEntry : this.#firstEntry
      for (const trigger of this.#triggers) trigger.began(entry, other)
    }
    if (this.#hedge !== null) this.first.exchange.record.hedge = isHedge ? 'won' : 'lost'
    this.#end(entry)
    return 'won'
  }

  #enter(entry: RacingAttempt, attempt: AttemptContext): Promise<Response | FailedOutcome> {
    return this.#single({ ...attempt, earlier: this.#earlier, race: entry, signal: entry })
  }

  /** The first attempt has ended. */
  #ended(outcome: Response | FailedOutcome): RaceOutcome | Promise<RaceOutcome> {
    this.#endTriggers()
    if (!('failure' in outcome)) return outcome
    if (!this.#firstEntry.lost) {
      this.#firstEntry.hasFailed = true
      this.#earlier.push(outcome)
      // The client has waited for the whole limit.
      if (outcome.failure === 'answer_timeout') this.#end(null)
    }
    return this.#afterSecond({ outcome, placed: this.first.placed })
  }

  async #afterSecond(first: FailedAttempt): Promise<RaceOutcome> {
    const second = (await this.#second) ?? null
    if (second === null) return { failures: [first, ...this.#failedSeconds] }
    return 'outcome' in second ? { failures: [first, ...this.#failedSeconds, second] } : second
  }

  /** Aborts all but the winner. null: there is none. */
  #end(winner: RacingAttempt | null): void {
    this.#phase = 'over'
    this.#endTriggers()
    if (this.#firstEntry !== winner) this.#firstEntry.lose()
    if (this.#secondEntry !== winner) this.#secondEntry?.lose()
  }

  #endTriggers(): void {
    for (const trigger of this.#triggers) trigger.end()
  }

  async #runSecond(kind: SecondKind): SecondOutcome {
    const { exchange, ports } = this.first
    try {
      const stages = new StageTimer(this.first.stages.snapshot())
      const context = { ...this.first, earlier: this.#earlier }
      const placed = await placeSecond(context, { kind, attempt: this.booked, stages })
      if (placed === null || !this.#keeps(placed)) return this.#aloneAgain()
      this.#phase = 'sent'
      this.#logSent(kind, placed)
      const attempt = { ...this.first, placed, stages }
      const entry = new RacingAttempt(this, attempt)
      this.#secondEntry = entry
      if (kind === 'hedge') {
        this.#hedge = entry
        exchange.record.hedge = 'failed'
      }
      const outcome = await this.#enter(entry, attempt)
      if ('failure' in outcome) return this.#secondFailed(kind, { outcome, placed }, entry)
      this.#resolve(outcome)
      return outcome
    } catch (error) {
      if (exchange.signal.aborted) throw error
      ports.log.error('hedge_failed', { id: exchange.id, error })
      return this.#aloneAgain()
    }
  }

  /** Counts the booking of a second engine, and releases one that is not needed any more. */
  #keeps({ booking, placement }: AcquiredPlacement): boolean {
    const { scope, signal } = this.first.exchange
    this.booked += 1
    if (this.#phase !== 'over' && !signal.aborted && placement.kind === 'whole') return true
    const released = booking.release(endedAs('abandoned'))
    if (released !== null) scope.background(released)
    return false
  }

  #logSent(kind: SecondKind, { route, engine }: AcquiredPlacement): void {
    const { exchange, ports, placed } = this.first
    ports.log.debug(kind === 'rescue' ? 'rescue_sent' : 'hedge_sent', {
      id: exchange.id,
      cluster: route.cluster.id,
      late: placed.engine.id,
      engine: engine.id,
      waited_ms: Math.round(ports.now() - this.#firstEntry.startedAt),
    })
  }

  #secondFailed(kind: SecondKind, failed: FailedAttempt, entry: RacingAttempt): FailedAttempt | null {
    if (!entry.lost) this.#earlier.push(failed.outcome)
    // The engine of the first attempt may be wedged, and a full one have room later.
    const mayFollow = kind === 'hedge' || failed.outcome.failure === 'busy'
    if (!mayFollow || entry.lost || this.#firstEntry.hasFailed) return failed
    this.#failedSeconds = [...this.#failedSeconds, failed]
    return this.#aloneAgain()
  }

  /** Another second engine may be asked for. */
  #aloneAgain(): null {
    this.#second = null
    this.#secondEntry = null
    if (this.#phase !== 'over') this.#phase = 'alone'
    return null
  }
}

const LOST = new Error('another engine answered first')

/** One of the attempts of a race. */
class RacingAttempt extends AbortListeners implements RaceEntry, RaceStart, AbortSignalLike {
  readonly startedAt: number
  readonly predictedMs: number | null
  /** Another engine may answer in its place. */
  hasFailed = false
  readonly #race: Race
  readonly #client: AbortSignalLike
  #lost = false

  constructor(race: Race, { exchange, ports, placed }: AttemptContext) {
    super()
    this.#race = race
    this.#client = exchange.signal
    this.startedAt = ports.now()
    this.predictedMs = placed.predictedTtftMs
  }

  get lost(): boolean {
    return this.#lost
  }

  get booked(): number {
    return this.#race.booked
  }

  claim(answer: Pick<OriginAnswer, 'status' | 'sse'>, early: boolean): 'won' | 'lost' | 'refused' {
    return this.#race.claim(this, answer, early)
  }

  lose(): void {
    if (this.#lost) return
    this.#lost = true
    this.callListeners()
  }

  get aborted(): boolean {
    return this.#lost || this.#client.aborted
  }

  get reason(): unknown {
    return this.#lost ? LOST : this.#client.reason
  }

  override addEventListener(type: 'abort', listener: () => void): void {
    super.addEventListener(type, listener)
    this.#client.addEventListener(type, listener)
  }

  override removeEventListener(type: 'abort', listener: () => void): void {
    super.removeEventListener(type, listener)
    this.#client.removeEventListener(type, listener)
  }
}
