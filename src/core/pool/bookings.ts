import { partsOf, type EarlyLegRole, endsAtFirstToken, type LegRole } from '../contract/legs.ts'
import type { BookingRef, Leg, LegDone } from './ledger-entry.ts'
import type { Admission, Placement, Outcome, PoolConfig, StageTimes } from '../contract/contract.ts'
import { ChurnMap } from '../churn-map.ts'
import type { EngineState, EngineTable } from './engine-state.ts'
import type { BookingSnapshot } from './snapshot.ts'
import { type CircuitSignal, circuitSignal, gatewayOutcome } from './circuit.ts'
import type { LoadStats } from './load-stats.ts'
import type { PoolLedger } from './ledger.ts'
import type { Decisions } from './decisions.ts'
import type { Attempt, Fleet, PoolAccounts } from './fleet.ts'
import type { HistoryRecorder } from '../reports/history.ts'

/** Set of the last `capacity` keys; adding a key removes the oldest. */
export class BoundedSet {
  readonly #limit: number
  readonly #keys = new Set<string>()
  /** Ring buffer: the first entry of a Set is found slowly after many deletions. */
  readonly #inOrder: string[] = []
  #next = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  add(key: string): void {
    if (this.#keys.has(key)) return
    if (this.#inOrder.length === this.#limit) this.#keys.delete(this.#inOrder[this.#next]!)
    this.#keys.add(key)
    this.#inOrder[this.#next] = key
    this.#next = (this.#next + 1) % this.#limit
  }

  delete(key: string): void {
    this.#keys.delete(key)
  }

  has(key: string): boolean {
    return this.#keys.has(key)
  }
}

/** Returns the key of one attempt of a request. Ids are made by the gateway, so clients cannot collide. */
export function bookingKey(admission: Pick<Admission, 'id' | 'attempt'>): string {
  return `${admission.id}#${admission.attempt}`
}

/** Returns the legs of a placement whose engines still exist. */
export function legsOf(placement: Placement, engines: EngineTable): Booking['legs'] {
  const legs: Booking['legs'][number][] = []
  for (const { engine: id, part } of partsOf(placement)) {
    const engine = engines.get(id)
    if (engine !== undefined) legs.push({ engine, part })
  }
  return legs
}

/** Live booking. */
export interface Booking extends BookingRef {
  readonly placement: Placement
  readonly legs: readonly (Leg & { readonly engine: EngineState })[]
  readonly bookedAt: number
  /** Another replica made and counts the decision. */
  readonly elsewhere: boolean
  /** Lower bound of the time its last leg was sent, milliseconds since the epoch. */
  sentAt: number
  /** Time of the last renewal, milliseconds since the epoch. */
  seenAt: number
  /** Expires after this time unless it is renewed. */
  lapsesAt: number
  firstTokenSeen: boolean
  /** Roles whose legs ended before the first token. */
  legsDone: readonly EarlyLegRole[]
  outputBlocks: number
}

/** Live bookings by key. A booking expires if it is not renewed; its age does not matter. */
export class Bookings {
  readonly #byKey = new ChurnMap<string, Booking>()

  get size(): number {
    return this.#byKey.size
  }

  add(
    booking: Omit<Booking, 'sentAt' | 'seenAt' | 'lapsesAt' | 'firstTokenSeen' | 'legsDone' | 'outputBlocks'>,
    leaseMs: number,
  ): Booking {
    const { bookedAt } = booking
    const added = {
      ...booking,
      sentAt: bookedAt,
      seenAt: bookedAt,
      lapsesAt: bookedAt + leaseMs,
      firstTokenSeen: false,
      legsDone: [],
      outputBlocks: 0,
    }
    this.#byKey.set(booking.key, added)
    return added
  }

  get(key: string): Booking | undefined {
    return this.#byKey.get(key)
  }

  /** Removes and returns a booking. undefined: unknown or already released, so that release has effect once. */
  take(key: string): Booking | undefined {
    const booking = this.#byKey.get(key)
    this.#byKey.delete(key)
    return booking
  }

  touch(booking: Booking, now: number, leaseMs: number): void {
    booking.seenAt = Math.max(booking.seenAt, now)
    booking.lapsesAt = booking.seenAt + leaseMs
  }

  lapsed(now: number): Booking[] {
    return [...this.#byKey.values()].filter((booking) => now > booking.lapsesAt)
  }

  nextLapseAt(): number | null {
    let next: number | null = null
    for (const { lapsesAt } of this.#byKey.values()) if (next === null || lapsesAt < next) next = lapsesAt
    return next
  }

  /** Returns plain data for a snapshot. */
  snapshot(): BookingSnapshot[] {
    return Array.from(
      this.#byKey.values(),
      ({ admission, placement, bookedAt, seenAt, firstTokenSeen, legsDone, outputBlocks }) => ({
        admission,
        placement,
        bookedAt,
        seenAt,
        firstTokenSeen,
        legsDone,
        outputBlocks,
      }),
    )
  }
}

/* Transitions of bookings. */

interface Parts extends PoolAccounts {
  readonly fleet: Fleet
  readonly decisions: Decisions
  readonly history: HistoryRecorder
}

/** Applies each transition of a booking to the ledger, the load statistics, the circuits and the decision log. */
export class BookingLifecycle {
  readonly #load: LoadStats
  readonly #ledger: PoolLedger
  readonly #fleet: Fleet
  readonly #decisions: Decisions
  readonly #history: HistoryRecorder
  #blockTokens = 1

  constructor({ load, ledger, fleet, decisions, history }: Parts) {
    this.#load = load
    this.#ledger = ledger
    this.#fleet = fleet
    this.#decisions = decisions
    this.#history = history
  }

  configure({ blockTokens }: PoolConfig): void {
    this.#blockTokens = blockTokens
  }

  legDone(booking: Booking, done: LegDone, now: number): void {
    if (booking.firstTokenSeen || booking.legsDone.includes(done.part)) return
    booking.legsDone = [...booking.legsDone, done.part]
    // The next leg is sent only now.
    booking.sentAt = now
    this.#load.legDone(booking, done, now)
    this.#ledger.legDone(booking, done, now)
    for (const { engine, part } of booking.legs) {
      if (part !== done.part) continue
      engine.movedAt = Math.max(engine.movedAt, now)
      this.#judge(engine, 'success', booking, now)
    }
  }

  firstToken(booking: Booking, stages: StageTimes, now: number): void {
    if (booking.firstTokenSeen) return
    booking.firstTokenSeen = true
    movedOn(booking, now)
    const isFirst = booking.admission.attempt === 0
    // The TTFT of a retry includes the time that earlier engines took.
    const own = isFirst ? stages : withoutTtft(stages)
    this.#load.firstToken(booking, now)
    this.#ledger.firstToken(booking, own, now)
    if (!booking.elsewhere) {
      const { promptTokens } = booking.admission
      const predictedTtftMs = this.#decisions.firstToken(booking.admission, stages)
      this.#history.firstToken({ stages, promptTokens, predictedTtftMs: isFirst ? predictedTtftMs : null }, now)
    }
    const ttftMs = own.ttft ?? own.first_byte ?? null
    for (const { engine, part } of booking.legs) {
      const isEarly = endsAtFirstToken(part)
      // Judged now and not at the end: a trial on a two-hour stream would block all others.
      if (!isEarly) this.#judge(engine, 'begun', booking, now)
      else if (!booking.legsDone.includes(part)) this.#judge(engine, 'success', booking, now)
      if (ttftMs !== null && (part === 'whole' || (isEarly && isFirst))) engine.sawTtft(ttftMs)
    }
  }

  progress(booking: Booking, outputBlocks: number, now: number): void {
    if (!booking.elsewhere)
      this.#history.output(Math.max(0, this.#tokensOf(outputBlocks) - this.#tokensOf(booking.outputBlocks)), now)
    this.#moveTo(booking, outputBlocks, now)
  }

  #moveTo(booking: Booking, outputBlocks: number, now: number): void {
    if (outputBlocks <= booking.outputBlocks) return
    booking.outputBlocks = outputBlocks
    movedOn(booking, now)
    this.#ledger.progress(booking, outputBlocks, now)
  }

  /** Restores the progress of a booking that was made again. */
  catchUp(
    booking: Booking,
    { firstTokenSeen, legsDone, outputBlocks }: Pick<Booking, 'firstTokenSeen' | 'legsDone' | 'outputBlocks'>,
    now: number,
  ): void {
    for (const part of legsDone) this.legDone(booking, { part, stages: {} }, now)
    if (firstTokenSeen) this.firstToken(booking, {}, now)
    // Its output was counted before.
    this.#moveTo(booking, outputBlocks, now)
  }

  end(booking: Booking, outcome: Outcome, now: number): void {
    this.#load.release(booking, now)
    this.#ledger.release(booking, outcome, now)
    if (!booking.elsewhere) {
      this.#decisions.settle(booking.admission, outcome)
      // What progress has not counted: the last block, and responses without progress.
      const tokens = outcome.usage?.completionTokens ?? 0
      this.#history.output(Math.max(0, tokens - this.#tokensOf(booking.outputBlocks)), now)
    }
    for (const [at, { engine, part }] of booking.legs.entries()) {
      // A split request's usage is the decode engine's: its cached tokens are the transferred ones.
      if (part === 'whole' && outcome.usage !== null) engine.sawUsage(outcome.usage)
      // Once per engine, even if it encoded several items.
      const isFirst = booking.legs.findIndex((leg) => leg.engine === engine) === at
      const isJudged = isOver(booking, part) && outcome.failedEngine !== engine.spec.id
      if (isFirst && !isJudged) this.#judgeEnd(engine, booking, outcome, now)
      this.#fleet.left(engine)
    }
  }

  /** A block counts from its first token, so all but the last are full. */
  #tokensOf(outputBlocks: number): number {
    return Math.max(0, outputBlocks - 1) * this.#blockTokens
  }

  #judgeEnd(engine: EngineState, booking: Booking, outcome: Outcome, now: number): void {
    const signalOf = engine.spec.isGateway === true ? gatewayOutcome : circuitSignal
    const isMoving = engine.movedAt > booking.sentAt
    const { failure, failedEngine = engine.spec.id } = outcome
    if (failure !== null && failedEngine === engine.spec.id) engine.lastFailure = { failure, at: now }
    const isUnreachable = outcome.failure === 'connect' || outcome.failure === 'connect_timeout'
    const signal = signalOf(engine.spec.id, booking, outcome, isMoving)
    this.#fleet.judge(engine, signal, { ...attemptOf(booking, now), isUnreachable })
    if (outcome.result === 'complete' && outcome.failure === null) movedOn(booking, now)
  }

  #judge(engine: EngineState, signal: CircuitSignal, booking: Booking, now: number): void {
    this.#fleet.judge(engine, signal, attemptOf(booking, now))
  }
}

function attemptOf({ key, elsewhere, sentAt, admission }: Booking, now: number): Attempt {
  const { tenant, isLastResort } = admission
  return { key, elsewhere, now, sentAt, tenant, hasAlternative: isLastResort !== true }
}

/** Records that the answering engine produced output. */
function movedOn({ legs }: Booking, now: number): void {
  for (const { engine, part } of legs) if (!endsAtFirstToken(part)) engine.movedAt = Math.max(engine.movedAt, now)
}

function withoutTtft(stages: StageTimes): StageTimes {
  const { ttft: _, ...own } = stages
  return own
}

/** Whether the leg ended before: how the response ends later is no evidence about its engine. */
function isOver({ firstTokenSeen, legsDone }: Booking, part: LegRole): boolean {
  return endsAtFirstToken(part) && (firstTokenSeen || legsDone.includes(part))
}
