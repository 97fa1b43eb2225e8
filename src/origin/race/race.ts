/**
 * Races: a request is also sent to a second engine, because its first byte is late (hedge.ts, if configured) or because
 * its engine is wedged (rescue.ts). The engine whose first byte comes first answers, the other attempt is aborted. Both
 * are booked; the end of the loser is no evidence about its engine.
 */
import { AbortListeners } from '../../abort-listeners.ts'
import { endedAs } from '../../core/contract/outcome.ts'
import type { AbortSignalLike } from '../../ports/abort-signal.ts'
import type { OriginAnswer } from '../../ports/origin.ts'
import { acquirePlacement } from '../placement/acquire.ts'
import type { AcquiredPlacement } from '../placement/acquired-placement.ts'
import type { AttemptContext, AttemptFailed, AttemptStep, FailedAttempt, RaceEntry } from '../attempt-context.ts'
import { hasOtherEngine } from '../pool-route.ts'
import { StageTimer } from '../stage-timer.ts'

/** Asks for a second engine while the first attempt of a race runs. */
export interface RaceTrigger {
  /** The answer of a stream has its first byte. */
  began(winner: RaceStart, all: readonly RaceStart[]): void
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
  /** The client has an answer or left, or a second engine was asked for. */
  readonly isDecided: boolean
  /** Asks for a second engine. `rescueFrom`: only if this one is wedged. false: none is needed, or none was free. */
  askSecond(rescueFrom?: string): Promise<boolean>
}

/** Also sends an attempt to a second engine if a trigger asks for one. */
export const raced =
  (next: SingleAttempt, triggers: readonly ((race: OpenRace) => RaceTrigger)[]): AttemptStep =>
  (attempt) =>
    mayRace(attempt) ? new Race(attempt, next).run(triggers) : next(attempt)

type RaceOutcome = Response | { readonly failures: readonly FailedAttempt[] }

/** An attempt on one engine. */
type SingleAttempt = (attempt: AttemptContext) => Promise<Response | AttemptFailed>

/** Whether a second engine may be asked while the attempt still runs. @testing */
export function mayRace({ exchange, placed }: AttemptContext): boolean {
  const { engine, placement, route } = placed
  const isAlone = !hasOtherEngine(route, engine)
  return exchange.pinned === null && !isAlone && placement.kind === 'whole' && isOwnEngine(engine)
}

/** No other gateway, which hedges itself, and no provider, which bills each request. */
const isOwnEngine = ({ isGateway, external }: AcquiredPlacement['engine']): boolean =>
  isGateway !== true && external === undefined

/** Runs one attempt of a request, and another one beside it if a trigger asks for a second engine. */
class Race implements OpenRace {
  readonly #single: SingleAttempt
  readonly first: AttemptContext
  readonly #earlier: AttemptFailed[]
  readonly #entries: RacingAttempt[] = []
  #resolve!: (outcome: RaceOutcome) => void
  #triggers: readonly RaceTrigger[] = []
  #second: Promise<Response | FailedAttempt | null> | null = null
  /** Rescues that had no room at a second engine. */
  readonly #refused: FailedAttempt[] = []
  #winner: RacingAttempt | null = null
  #firstFailed = false
  #isRescue = false
  #isOver = false
  /** Bookings so far; that of a hedge counts from its request. */
  booked: number

  constructor(first: AttemptContext, single: SingleAttempt) {
    this.#single = single
    this.first = first
    this.#earlier = [...first.earlier]
    this.booked = first.earlier.length + 1
  }

  /** Resolves with the response for the client, or with all failures if another engine may try. Throws if none may. */
  run(triggers: readonly ((race: OpenRace) => RaceTrigger)[]): Promise<RaceOutcome> {
    this.#triggers = triggers.map((start) => start(this))
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      // The winner's response does not wait for the end of the loser.
      this.#enter(this.first).then(
        (outcome) => resolve(this.#ended(outcome)),
        (error: unknown) => {
          this.#end()
          reject(error)
        },
      )
    })
  }

  get isDecided(): boolean {
    return this.#isOver || this.#second !== null || this.first.exchange.signal.aborted
  }

  async askSecond(rescueFrom?: string): Promise<boolean> {
    const second = this.#runSecond(rescueFrom)
    this.#second = second
    try {
      const outcome = await second
      if (outcome !== null && !this.#asksAgain(outcome, rescueFrom)) return true
      // Another one may be asked for, unless it was already.
      if (this.#second !== second || rescueFrom === undefined) return false
      if (outcome !== null) this.#refused.push(outcome)
      this.#second = null
      return false
    } catch {
      // The client left: the first attempt ends the race.
      return true
    }
  }

  /** A full engine may have room later, while the engine of the first attempt is wedged. */
  #asksAgain(outcome: Response | FailedAttempt, rescueFrom?: string): outcome is FailedAttempt {
    const isFull = 'outcome' in outcome && outcome.outcome.failure === 'busy'
    return isFull && rescueFrom !== undefined && !this.#isOver && !this.#firstFailed
  }

  /** The first entry that claims the response answers. A second engine's refusal does not, while the first may. */
  claim(
    entry: RacingAttempt,
    { status, sse }: Pick<OriginAnswer, 'status' | 'sse'>,
    early: boolean,
  ): 'won' | 'lost' | 'refused' {
    if (entry.lost) return 'lost'
    const mayFirstAnswer = !this.#firstFailed && !this.#isRescue
    if (status >= 300 && entry !== this.#entries[0] && mayFirstAnswer) return 'refused'
    this.#winner = entry
    if (sse && status < 300 && !early) for (const trigger of this.#triggers) trigger.began(entry, this.#entries)
    if (this.#entries.length > 1 && !this.#isRescue)
      this.first.exchange.record.hedge = entry === this.#entries[0] ? 'lost' : 'won'
    this.#end()
    return 'won'
  }

  #enter(attempt: AttemptContext): Promise<Response | AttemptFailed> {
    const entry = new RacingAttempt(this, attempt)
    this.#entries.push(entry)
    return this.#single({ ...attempt, earlier: this.#earlier, race: entry, signal: entry })
  }

  /** The first attempt has ended. */
  #ended(outcome: Response | AttemptFailed): RaceOutcome | Promise<RaceOutcome> {
    this.#endTriggers()
    if (!('failure' in outcome)) return outcome
    if (this.#winner === null) {
      this.#firstFailed = true
      this.#earlier.push(outcome)
      // The client has waited for the whole limit.
      if (outcome.failure === 'answer_timeout') this.#end()
    }
    return this.#afterSecond({ outcome, placed: this.first.placed })
  }

  async #afterSecond(first: FailedAttempt): Promise<RaceOutcome> {
    const second = await this.#second
    if (second === null) return { failures: [first, ...this.#refused] }
    return 'outcome' in second ? { failures: [first, ...this.#refused, second] } : second
  }

  /** Aborts all but the winner. */
  #end(): void {
    this.#isOver = true
    this.#endTriggers()
    for (const entry of this.#entries) if (entry !== this.#winner) entry.lose()
  }

  #endTriggers(): void {
    for (const trigger of this.#triggers) trigger.end()
  }

  /**
   * null: not sent, or not needed any more. Rejects only if the client disconnects.
   * @param rescueFrom the engine from which a rescue is wanted. Absent: the first byte is late
   */
  async #runSecond(rescueFrom?: string): Promise<Response | FailedAttempt | null> {
    const { exchange, ports, stages } = this.first
    try {
      const ownStages = new StageTimer(stages.snapshot())
      const placed = await this.#place(ownStages, rescueFrom)
      if (placed === null) return null
      this.#isRescue = rescueFrom !== undefined
      if (!this.#isRescue) exchange.record.hedge = 'failed'
      ports.log.debug(this.#isRescue ? 'rescue_sent' : 'hedge_sent', {
        id: exchange.id,
        cluster: placed.route.cluster.id,
        late: this.first.placed.engine.id,
        engine: placed.engine.id,
        waited_ms: Math.round(ports.now() - this.#entries[0]!.startedAt),
      })
      const outcome = await this.#enter({ ...this.first, placed, stages: ownStages })
      if ('failure' in outcome) {
        if (this.#winner === null) this.#earlier.push(outcome)
        return { outcome, placed }
      }
      this.#resolve(outcome)
      return outcome
    } catch (error) {
      if (exchange.signal.aborted) throw error
      ports.log.error('hedge_failed', { id: exchange.id, error })
      return null
    }
  }

  /** Books a second engine. null: none takes the request, or it is not needed any more. */
  async #place(stages: StageTimer, rescueFrom?: string): Promise<AcquiredPlacement | null> {
    const { exchange, ports, digests, placeOf, placed: first, earlier } = this.first
    if (this.#isOver || exchange.signal.aborted) return null
    const { route } = first
    const foreign = [...route.targets.values()].filter((engine) => !isOwnEngine(engine)).map(({ id }) => id)
    const failed = earlier.filter(({ failure }) => failure !== 'busy').map(({ engine }) => engine.id)
    const history = {
      attempt: this.booked,
      moved: false,
      failedLegs: null,
      avoid: new Map([[route.cluster.id, [first.engine.id, ...failed, ...foreign]]]),
      beyondContextTokens: null,
    }
    const context = { ports, digests, stages, placeOf }
    const placed = await acquirePlacement(exchange, context, history, { route, rescueFrom })
    if ('refused' in placed) {
      if (rescueFrom === undefined) exchange.record.hedge ??= placed.refused.reason
      return null
    }
    this.booked += 1
    if (!this.#isOver && !exchange.signal.aborted && placed.placement.kind === 'whole')
      return { ...placed, notes: [...placed.notes, rescueFrom === undefined ? 'hedge=won' : 'rescue=won'] }
    const released = placed.booking.release(endedAs('abandoned'))
    if (released !== null) exchange.scope.background(released)
    return null
  }
}

const LOST = new Error('another engine answered first')

/** One of the attempts of a race. */
class RacingAttempt extends AbortListeners implements RaceEntry, RaceStart, AbortSignalLike {
  readonly startedAt: number
  readonly predictedMs: number | null
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
