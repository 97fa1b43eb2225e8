/**
 * Races: a request is also sent to a second engine, because its first byte is late (hedge.ts, if configured) or because
 * its engine is wedged (rescue.ts). The engine whose first byte comes first answers, the other attempt is aborted. Both
 * are booked; the end of the loser is no evidence about its engine.
 */
import type { SecondKind } from '../../core/contract/admission.ts'
import { AbortListeners } from '../../abort-listeners.ts'
import { endedAs } from '../../core/contract/outcome.ts'
import type { AbortSignalLike } from '../../ports/abort-signal.ts'
import { isOwnEngine } from '../../ports/engine-target.ts'
import type { OriginAnswer } from '../../ports/origin.ts'
import type { AcquiredPlacement } from '../placement/acquired-placement.ts'
import type { AttemptContext, FailedOutcome, AttemptStep, FailedAttempt, RaceEntry } from '../attempt-context.ts'
import { hasOtherEngine } from '../pool-route.ts'
import { StageTimer } from '../stage-timer.ts'
import { placeSecond } from './second-engine.ts'

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
  /** The attempt beside which a second engine may be asked. */
  readonly attempt: AttemptContext
  /** No engine has answered, and that of the attempt may: a second one would be of use if none has the request. */
  readonly isOpen: boolean
  /**
   * Asks for a second engine, unless one is asked for already or is of no use any more. Resolves when none was booked,
   * or when the attempt on it has ended. Never rejects.
   */
  askSecond(kind: SecondKind): Promise<void>
}

/** Also sends an attempt to a second engine if a trigger asks for one. */
export const raced =
  (next: SingleAttempt, triggers: readonly StartTrigger[]): AttemptStep =>
  (attempt) =>
    mayRace(attempt) ? new Race(attempt, next, triggers).run() : next(attempt)

type StartTrigger = (race: OpenRace) => RaceTrigger

type RaceOutcome = Response | { readonly failures: readonly FailedAttempt[] }

/** An attempt on one engine. */
type SingleAttempt = (attempt: AttemptContext) => Promise<Response | FailedOutcome>

/** Whether a second engine may be asked while the attempt still runs. Other gateways hedge themselves. @testing */
export function mayRace({ exchange, placed }: AttemptContext): boolean {
  const { engine, placement, route } = placed
  const isAlone = !hasOtherEngine(route, engine)
  return exchange.pinned === null && !isAlone && placement.kind === 'whole' && isOwnEngine(engine)
}

/**
 * `alone`: only the watched attempt runs. `asking`: a second engine is asked for. `both`: a second attempt runs.
 * `closed`: only the watched attempt runs, and no second engine may be asked. `over`: the client has an answer, or
 * gets none.
 */
type RacePhase = 'alone' | 'asking' | 'both' | 'closed' | 'over'

const NONE: readonly never[] = []

/**
 * Runs one attempt of a request, and another one beside it if a trigger asks for a second engine. If the first attempt
 * fails while the second one runs, the second one takes its place: its engine may be late or wedged, too.
 */
class Race implements OpenRace {
  readonly #single: SingleAttempt
  readonly #start: readonly StartTrigger[]
  readonly #earlier: FailedOutcome[]
  /** In the order in which they failed. */
  readonly #failures: FailedAttempt[] = []
  #settle!: { resolve(outcome: RaceOutcome): void; reject(error: unknown): void }
  #triggers: readonly RaceTrigger[] = NONE
  #phase: RacePhase = 'alone'
  /** The attempt that the triggers watch. */
  #watched: RacingAttempt
  /** The attempt that runs beside the watched one. null: none does. */
  #second: RacingAttempt | null = null
  /** Settles when the second engine that was asked for last has ended or was not booked. null: none was asked for. */
  #secondEnd: Promise<void> | null = null
  /** The hedge, which may have failed. null: the request was not hedged. */
  #hedge: RacingAttempt | null = null
  /** Bookings so far; that of a second engine counts from its request. */
  booked: number

  constructor(first: AttemptContext, single: SingleAttempt, start: readonly StartTrigger[]) {
    this.#single = single
    this.#start = start
    this.#watched = new RacingAttempt(this, first)
    this.#earlier = [...first.earlier]
    this.booked = first.earlier.length + 1
  }

  /** Resolves with the response for the client, or with all failures if another engine may try. Throws if none may. */
  run(): Promise<RaceOutcome> {
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
      this.#startTriggers()
      void this.#runAttempt(this.#watched)
    })
  }

  get attempt(): AttemptContext {
    return this.#watched.attempt
  }

  get isOpen(): boolean {
    return this.#phase !== 'over' && !this.#watched.hasFailed && !this.attempt.exchange.signal.aborted
  }

  async askSecond(kind: SecondKind): Promise<void> {
    // A request that failed at an engine is not hedged.
    const isAllowed = kind === 'rescue' || this.#failures.length === 0
    if (this.#phase === 'alone' && this.isOpen && isAllowed) {
      this.#phase = 'asking'
      this.#secondEnd = this.#runSecond(kind)
      // On Workers, the end of the response would otherwise end the JavaScript before a late booking is released.
      this.attempt.exchange.scope.background(this.#secondEnd)
    }
    await this.#secondEnd
  }

  /** The first entry that claims the response answers. A hedge's refusal does not, while the watched attempt may. */
  claim(
    entry: RacingAttempt,
    { status, sse }: Pick<OriginAnswer, 'status' | 'sse'>,
    early: boolean,
  ): 'won' | 'lost' | 'refused' {
    if (entry.lost) return 'lost'
    const isHedge = entry === this.#hedge
    const isWatched = entry === this.#watched
    if (status >= 300 && isHedge && !isWatched) return 'refused'
    if (sse && status < 300 && !early) {
      const other = isWatched ? this.#second : this.#watched
      for (const trigger of this.#triggers) trigger.began(entry, other)
    }
    if (this.#hedge !== null) this.attempt.exchange.record.hedge = isHedge ? 'won' : 'lost'
    this.#end(entry)
    return 'won'
  }

  #startTriggers(): void {
    this.#triggers = this.#start.map((start) => start(this))
  }

  #endTriggers(): void {
    for (const trigger of this.#triggers) trigger.end()
  }

  /** Resolves when the attempt has ended. Never rejects. */
  #runAttempt(entry: RacingAttempt): Promise<void> {
    return this.#single({ ...entry.attempt, earlier: this.#earlier, race: entry, signal: entry }).then(
      (outcome) => {
        // The winner's response does not wait for the end of the loser.
        if (!('failure' in outcome)) this.#resolve(outcome)
        else if (!entry.lost) this.#failed(entry, outcome)
      },
      (error: unknown) => this.#threw(entry, error),
    )
  }

  #resolve(outcome: RaceOutcome): void {
    this.#endTriggers()
    this.#settle.resolve(outcome)
  }

  #failed(entry: RacingAttempt, outcome: FailedOutcome): void {
    entry.hasFailed = true
    this.#earlier.push(outcome)
    this.#failures.push({ outcome, placed: entry.attempt.placed })
    if (entry !== this.#watched) {
      // The watched engine may be wedged, and a full one have room later.
      const mayFollow = entry === this.#hedge || outcome.failure === 'busy'
      return this.#withoutSecond(mayFollow ? 'alone' : 'closed')
    }
    this.#endTriggers()
    // The client has waited for the whole limit.
    if (outcome.failure === 'answer_timeout') this.#end(null)
    this.#watchedFailed()
  }

  /** The watched attempt has failed: the second one takes its place, or all have failed. */
  #watchedFailed(): void {
    if (this.#phase === 'asking') return
    if (this.#phase !== 'both') return this.#resolve({ failures: this.#failures })
    this.#watched = this.#second!
    this.#second = null
    this.#phase = 'alone'
    this.#startTriggers()
  }

  #threw(entry: RacingAttempt, error: unknown): void {
    const { exchange, ports } = entry.attempt
    const isAnswer = entry === this.#watched || this.#phase === 'over'
    if (isAnswer || exchange.signal.aborted) {
      this.#end(null)
      this.#settle.reject(error)
    } else {
      ports.log.error('hedge_failed', { id: exchange.id, error })
      this.#withoutSecond('alone')
    }
  }

  /** Aborts all but the winner. null: there is none. */
  #end(winner: RacingAttempt | null): void {
    this.#phase = 'over'
    this.#endTriggers()
    if (this.#watched !== winner) this.#watched.lose()
    if (this.#second !== winner) this.#second?.lose()
  }

  async #runSecond(kind: SecondKind): Promise<void> {
    const attempt = await this.#placeSecond(kind)
    if (attempt === null) return this.#withoutSecond('alone')
    this.#phase = 'both'
    this.#logSent(kind, attempt.placed)
    const entry = new RacingAttempt(this, attempt)
    this.#second = entry
    if (kind === 'hedge') {
      this.#hedge = entry
      attempt.exchange.record.hedge = 'failed'
    }
    if (this.#watched.hasFailed) this.#watchedFailed()
    await this.#runAttempt(entry)
  }

  /** No second attempt runs. */
  #withoutSecond(phase: 'alone' | 'closed'): void {
    this.#second = null
    if (this.#phase === 'over') return
    this.#phase = phase
    if (this.#watched.hasFailed) this.#watchedFailed()
  }

  /** null: no engine takes the request, or none is needed any more. Never rejects. */
  async #placeSecond(kind: SecondKind): Promise<AttemptContext | null> {
    const { attempt } = this
    const { exchange, ports } = attempt
    const stages = new StageTimer(attempt.stages.snapshot())
    const context = { ...attempt, earlier: this.#earlier }
    try {
      const placed = await placeSecond(context, { kind, attempt: this.booked, stages })
      return placed !== null && this.#keeps(placed) ? { ...attempt, placed, stages } : null
    } catch (error) {
      // If the client left, the watched attempt ends with that error.
      if (!exchange.signal.aborted) ports.log.error('hedge_failed', { id: exchange.id, error })
      return null
    }
  }

  /** Counts the booking of a second engine, and releases one that is not needed any more. */
  #keeps({ booking, placement }: AcquiredPlacement): boolean {
    const { scope, signal } = this.attempt.exchange
    this.booked += 1
    if (this.#phase !== 'over' && !signal.aborted && placement.kind === 'whole') return true
    const released = booking.release(endedAs('abandoned'))
    if (released !== null) scope.background(released)
    return false
  }

  #logSent(kind: SecondKind, { route, engine }: AcquiredPlacement): void {
    const { exchange, ports, placed } = this.attempt
    ports.log.debug(kind === 'rescue' ? 'rescue_sent' : 'hedge_sent', {
      id: exchange.id,
      cluster: route.cluster.id,
      late: placed.engine.id,
      engine: engine.id,
      waited_ms: Math.round(ports.now() - this.#watched.startedAt),
    })
  }
}

const LOST = new Error('another engine answered first')

/** One of the attempts of a race. */
class RacingAttempt extends AbortListeners implements RaceEntry, RaceStart, AbortSignalLike {
  readonly startedAt: number
  readonly predictedMs: number | null
  readonly attempt: AttemptContext
  /** Another engine may answer in its place. */
  hasFailed = false
  readonly #race: Race
  readonly #client: AbortSignalLike
  #lost = false

  constructor(race: Race, attempt: AttemptContext) {
    super()
    const { exchange, ports, placed } = attempt
    this.#race = race
    this.attempt = attempt
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
