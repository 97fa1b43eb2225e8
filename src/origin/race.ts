/**
 * Races: a request is also sent to a second engine, because its first byte is late (hedging, if configured) or because
 * its engine is wedged (rescue). The engine whose first byte comes first answers, the other attempt is aborted. Both
 * are booked; the end of the loser is no evidence about its engine.
 */
import { AbortListeners } from '../abort-listeners.ts'
import { endedAs } from '../core/contract/outcome.ts'
import { FirstByteLimit } from '../core/latency/first-byte-limit.ts'
import { firstQuestionMs, nextQuestionMs } from '../core/pool/condition/rescue-times.ts'
import type { AbortSignalLike } from '../ports/abort-signal.ts'
import type { OriginAnswer } from '../ports/origin.ts'
import type { Timer } from '../ports/timers.ts'
import { timersOf } from '../timers.ts'
import { acquirePlacement } from './placement/acquire.ts'
import type { AcquiredPlacement } from './placement/acquired-placement.ts'
import type { AttemptContext, AttemptFailed, AttemptStep, FailedAttempt, RaceEntry } from './attempt-context.ts'
import type { PoolRoute } from './pool-route.ts'
import { StageTimer } from './stage-timer.ts'

/** Shortest delay of a hedge with `auto`, ms: below it, timers and the network decide who is late. */
const MIN_DELAY_MS = 50

/** Learned per process or isolate. The entries end with the pools of a configuration. */
const limits = new WeakMap<PoolRoute['pool'], FirstByteLimit>()

function limitOf(pool: PoolRoute['pool']): FirstByteLimit {
  const known = limits.get(pool) ?? new FirstByteLimit()
  limits.set(pool, known)
  return known
}

/** Also sends an attempt to a second engine if it is late, or if its engine is wedged. */
export const raced =
  (next: SingleAttempt): AttemptStep =>
  (attempt) =>
    mayRace(attempt) ? new Race(attempt, next).run() : next(attempt)

type RaceOutcome = Response | { readonly failures: readonly FailedAttempt[] }

/** An attempt on one engine. */
type SingleAttempt = (attempt: AttemptContext) => Promise<Response | AttemptFailed>

/** Whether a second engine may be asked while the attempt, the first of its request, still runs. @testing */
export function mayRace({ exchange, placed }: AttemptContext): boolean {
  const { targets } = placed.route
  return exchange.pinned === null && targets.size > 1 && placed.placement.kind === 'whole' && isOwnEngine(placed.engine)
}

/** No other gateway, which hedges itself, and no provider, which bills each request. */
const isOwnEngine = ({ isGateway, external }: AcquiredPlacement['engine']): boolean =>
  isGateway !== true && external === undefined

/** Runs the first attempt of a request, and a second one beside it if the first byte is late. */
class Race {
  readonly #single: SingleAttempt
  readonly #first: AttemptContext
  readonly #earlier: AttemptFailed[]
  readonly #entries: RacingAttempt[] = []
  readonly #limit: FirstByteLimit | null
  #resolve!: (outcome: RaceOutcome) => void
  #timer: Timer | null = null
  #rescueTimer: Timer | null = null
  /** Interval of the last question. */
  #rescueMs: number | null = null
  #second: Promise<Response | FailedAttempt | null> | null = null
  #winner: RacingAttempt | null = null
  #firstFailed = false
  #isRescue = false
  #isOver = false
  /** Bookings so far; that of a hedge counts from its request. */
  booked: number

  constructor(first: AttemptContext, single: SingleAttempt) {
    this.#single = single
    this.#first = first
    this.#earlier = [...first.earlier]
    this.booked = first.earlier.length + 1
    const { pool } = first.placed.route
    // Without a stream the first byte comes with the last one, and no prediction covers that.
    this.#limit = pool.retry.hedgeMs === 'auto' && first.exchange.stream ? limitOf(pool) : null
  }

  /** Resolves with the response for the client, or with all failures if another engine may try. Throws if none may. */
  run(): Promise<RaceOutcome> {
    const delayMs = this.#delayMs()
    if (delayMs !== null) this.#hedgeLater(delayMs)
    this.#rescueLater(firstQuestionMs(this.#first.placed.predictedTtftMs))
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      // The winner's response does not wait for the end of the loser.
      this.#enter(this.#first).then(
        (outcome) => resolve(this.#ended(outcome)),
        (error: unknown) => {
          this.#end()
          reject(error)
        },
      )
    })
  }

  #hedgeLater(delayMs: number): void {
    const { exchange, ports } = this.#first
    this.#timer = timersOf(exchange.scope, ports).set(delayMs, () => {
      this.#second = this.#hedge()
      // If the first attempt decides, no code waits for the second one.
      this.#second.catch(() => {})
    })
  }

  /** Asks again and again, less and less often, whether the engine is wedged. */
  #rescueLater(delayMs: number): void {
    const { exchange, ports } = this.#first
    this.#rescueTimer = timersOf(exchange.scope, ports).set(delayMs, () => {
      if (this.#isOver || this.#second !== null || exchange.signal.aborted) return
      const rescue = this.#hedge(this.#first.placed.engine.id)
      this.#second = rescue
      rescue.then(
        (outcome) => {
          if (outcome !== null || this.#isOver) return
          this.#second = null
          this.#rescueMs = nextQuestionMs(this.#rescueMs)
          this.#rescueLater(this.#rescueMs)
        },
        // If the first attempt decides, no code waits for the second one.
        () => {},
      )
    })
  }

  /** The first entry that claims the response answers. A second engine's refusal does not, while the first may. */
  claim(
    entry: RacingAttempt,
    { status, sse }: Pick<OriginAnswer, 'status' | 'sse'>,
    early: boolean,
  ): 'won' | 'lost' | 'refused' {
    if (entry.lost) return 'lost'
    if (status >= 300 && entry !== this.#entries[0] && !this.#firstFailed) return 'refused'
    this.#winner = entry
    if (sse && status < 300 && !early) this.#learn(entry)
    if (this.#entries.length > 1 && !this.#isRescue)
      this.#first.exchange.record.hedge = entry === this.#entries[0] ? 'lost' : 'won'
    this.#end()
    return 'won'
  }

  /** Time after which the first byte is late; null: unknown. */
  #delayMs(): number | null {
    const { route, predictedTtftMs } = this.#first.placed
    const { hedgeMs } = route.pool.retry
    if (typeof hedgeMs === 'number') return hedgeMs
    if (this.#limit === null) return null
    const { ratio } = this.#limit
    return ratio === null || predictedTtftMs === null ? null : Math.max(MIN_DELAY_MS, ratio * predictedTtftMs)
  }

  #enter(attempt: AttemptContext): Promise<Response | AttemptFailed> {
    const entry = new RacingAttempt(this, attempt)
    this.#entries.push(entry)
    return this.#single({ ...attempt, earlier: this.#earlier, race: entry, signal: entry })
  }

  /** The first attempt has ended. */
  #ended(outcome: Response | AttemptFailed): RaceOutcome | Promise<RaceOutcome> {
    this.#timer?.cancel()
    this.#rescueTimer?.cancel()
    if (!('failure' in outcome)) return outcome
    if (this.#winner === null) {
      this.#firstFailed = true
      this.#earlier.push(outcome)
      // The client has waited for the whole limit.
      if (outcome.failure === 'answer_timeout') this.#end()
    }
    return this.#afterSecond({ outcome, placed: this.#first.placed })
  }

  async #afterSecond(first: FailedAttempt): Promise<RaceOutcome> {
    const second = await this.#second
    if (second === null) return { failures: [first] }
    return 'outcome' in second ? { failures: [first, second] } : second
  }

  /** Aborts all but the winner. */
  #end(): void {
    this.#isOver = true
    this.#timer?.cancel()
    this.#rescueTimer?.cancel()
    for (const entry of this.#entries) if (entry !== this.#winner) entry.lose()
  }

  /**
   * null: not sent, or not needed any more. Rejects only if the client disconnects.
   * @param rescueFrom the engine from which a rescue is wanted. Absent: the first byte is late
   */
  async #hedge(rescueFrom?: string): Promise<Response | FailedAttempt | null> {
    const { exchange, ports, stages } = this.#first
    try {
      const ownStages = new StageTimer(stages.snapshot())
      const placed = await this.#place(ownStages, rescueFrom)
      if (placed === null) return null
      this.#isRescue = rescueFrom !== undefined
      if (!this.#isRescue) exchange.record.hedge = 'failed'
      ports.log.debug(this.#isRescue ? 'rescue_sent' : 'hedge_sent', {
        id: exchange.id,
        cluster: placed.route.cluster.id,
        late: this.#first.placed.engine.id,
        engine: placed.engine.id,
        waited_ms: Math.round(ports.now() - this.#entries[0]!.startedAt),
      })
      const outcome = await this.#enter({ ...this.#first, placed, stages: ownStages })
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
    const { exchange, ports, digests, placeOf, placed: first } = this.#first
    if (this.#isOver || exchange.signal.aborted) return null
    const { route } = first
    const others = [...route.targets.values()].filter((engine) => !isOwnEngine(engine)).map(({ id }) => id)
    const placed = await acquirePlacement(exchange, ports, digests, {
      attempt: this.booked,
      moved: false,
      failedLegs: null,
      avoid: new Map([[route.cluster.id, [first.engine.id, ...others]]]),
      stages,
      placeOf,
      hedgeIn: route,
      ...(rescueFrom === undefined ? {} : { rescueFrom }),
    })
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

  #learn(winner: RacingAttempt): void {
    const now = this.#first.ports.now()
    for (const { startedAt, predictedMs } of this.#entries)
      if (predictedMs !== null && winner.startedAt === startedAt) this.#limit?.add(predictedMs, now - startedAt)
      else if (predictedMs !== null) this.#limit?.addLater(predictedMs, now - startedAt)
  }
}

const LOST = new Error('another engine answered first')

/** One of the attempts of a race. */
class RacingAttempt extends AbortListeners implements RaceEntry, AbortSignalLike {
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
