import { endsAtFirstToken } from '../contract/legs.ts'
import type { Outcome } from '../contract/outcome.ts'
import type { CostAnswer } from '../cost/request-cost.ts'
import { BookingCosts } from '../cost/booking-costs.ts'
import { isOpaque, type PoolConfig } from '../contract/pool-config.ts'
import type { StageTimes } from '../contract/stages.ts'
import type { OverloadControl } from '../overload/overload-control.ts'
import type { HistoryRecorder } from '../reports/history-recorder.ts'
import { countArrival } from './arrived-work.ts'
import { endAdapter } from './pool-engines/adapter-servers.ts'
import { hasLegEnded, type LegDone } from './booking-ref.ts'
import type { Booking } from './bookings.ts'
import { circuitSignal, gatewaySignal } from './pool-engines/circuit-signal.ts'
import type { CircuitSignal } from './pool-engines/circuit.ts'
import type { DecisionLog } from './decision/decision-log.ts'
import type { EngineState } from './pool-engines/engine-state.ts'
import type { PoolEngines } from './pool-engines/pool-engines.ts'
import type { PoolLedger } from './ledger.ts'
import { predictionOf } from './ledger-entry.ts'
import type { LoadStats } from './load-stats.ts'
import type { BookedLoad } from './pool-engines/booked-load.ts'

/** Progress of a request that is booked again. */
type BookingProgress = Pick<Booking, 'firstTokenSeen' | 'legsDone' | 'outputBlocks'> & {
  readonly ageMs?: number | undefined
}

interface LifecycleParts extends BookedLoad {
  readonly engines: PoolEngines
  readonly decisions: DecisionLog
  readonly history: HistoryRecorder
  readonly overload: Pick<OverloadControl, 'arrivals'>
}

type CostCalls = Pick<BookingCosts, 'booked' | 'legDone' | 'firstToken' | 'ended' | 'costOf'>

const ignore = (): void => {}

/** Calls where costs are not counted. */
const noCosts: CostCalls = { booked: ignore, legDone: ignore, firstToken: ignore, ended: ignore, costOf: () => null }

/** Applies each transition of a booking to the ledger, the load statistics, the circuits and the decision log. */
export class BookingLifecycle {
  readonly #load: LoadStats
  readonly #ledger: PoolLedger
  readonly #engines: PoolEngines
  readonly #decisions: DecisionLog
  readonly #history: HistoryRecorder
  readonly #overload: LifecycleParts['overload']
  #blockTokens = 1
  #costs: CostCalls = noCosts
  /** Counts a booking as an arrival, in a pool with an objective. */
  #countArrival: (booking: Booking, now: number) => void = ignore

  constructor({ load, ledger, engines, decisions, history, overload }: LifecycleParts) {
    this.#load = load
    this.#ledger = ledger
    this.#engines = engines
    this.#decisions = decisions
    this.#history = history
    this.#overload = overload
  }

  /** Called after the overload control has the same configuration. */
  configure({ blockTokens, countsCosts = false }: PoolConfig): void {
    this.#blockTokens = blockTokens
    if (!countsCosts) this.#costs = noCosts
    else if (this.#costs === noCosts) this.#costs = new BookingCosts(this.#ledger)
    const { arrivals } = this.#overload
    this.#countArrival = arrivals === null ? ignore : (booking, now) => countArrival(arrivals, booking, now)
  }

  /** Cost of a booking by its key. */
  costOf(key: string): CostAnswer {
    return this.#costs.costOf(key)
  }

  /** Starts to count what a new booking costs and owes, and counts it as an arrival. */
  added(booking: Booking, now: number): void {
    this.#costs.booked(booking, now)
    this.#owes(booking, now)
    this.#countArrival(booking, now)
  }

  /** Records when the first output of a booking is due. */
  #owes(booking: Booking, now: number): void {
    const { placement, legs, entry, admission } = booking
    const predicted = predictionOf(entry)
    const [{ engine } = { engine: null }] = legs
    if (engine === null || predicted === null || placement.kind !== 'whole' || isOpaque(engine.spec)) return
    const expected = this.#ledger.expected(engine, now)
    const answerMs = admission.streams === false ? expected.answerMs(admission, predicted.itlS) : 0
    const { ttftMs, size } = predicted
    const { prefillMs, beyondMs } = expected.prefill(size, predicted.prefillMs)
    booking.owed = engine.owed.add({ predictedMs: Math.max(ttftMs, prefillMs) + answerMs, prefillMs, beyondMs, now })
  }

  legDone(booking: Booking, done: LegDone, now: number): void {
    if (booking.firstTokenSeen || booking.legsDone.includes(done.legRole)) return
    booking.legsDone = [...booking.legsDone, done.legRole]
    this.#costs.legDone(booking, done.legRole, now)
    // The next leg is sent only now.
    booking.sentAt = now
    this.#load.legDone(booking, done, now)
    this.#ledger.legDone(booking.entry, done, now)
    for (const { engine, legRole } of booking.legs) {
      if (legRole !== done.legRole) continue
      engine.moved(now)
      this.#judge(engine, 'success', booking, now)
    }
  }

  firstToken(booking: Booking, stages: StageTimes, now: number): void {
    if (booking.firstTokenSeen) return
    booking.firstTokenSeen = true
    this.#costs.firstToken(booking, now)
    if (booking.owed !== null) booking.legs[0]!.engine.owed.settled(booking.owed)
    recordOutput(booking, now)
    this.#owesMore(booking, 'begun', now)
    const isFirst = booking.admission.attempt === 0
    // The TTFT of a retry includes the time that earlier engines took.
    const own = isFirst ? stages : withoutTtft(stages)
    this.#load.firstToken(booking, now)
    this.#ledger.firstToken(booking.entry, own, now)
    if (!booking.isOfPeer) {
      const { promptTokens } = booking.admission
      const predictedTtftMs = booking.logged === null ? null : this.#decisions.firstToken(booking.logged, stages)
      const token = { stages, promptTokens, predictedTtftMs: isFirst ? predictedTtftMs : null }
      if (this.#history.firstToken(token, now)) this.#overload.arrivals?.late(now)
    }
    const ttftMs = own.ttft ?? own.first_byte ?? null
    for (const { engine, legRole } of booking.legs) {
      const isEarly = endsAtFirstToken(legRole)
      // Judged now and not at the end: a trial on a two-hour stream would block all others.
      if (!isEarly) this.#judge(engine, 'begun', booking, now)
      else if (!booking.legsDone.includes(legRole)) this.#judge(engine, 'success', booking, now)
      if (ttftMs !== null && (legRole === 'whole' || (isEarly && isFirst))) engine.sawTtft(ttftMs)
    }
  }

  progress(booking: Booking, outputBlocks: number, now: number): void {
    if (!booking.isOfPeer)
      this.#history.output(Math.max(0, this.#tokensOf(outputBlocks) - this.#tokensOf(booking.outputBlocks)), now)
    this.#moveTo(booking, outputBlocks, now)
  }

  #moveTo(booking: Booking, outputBlocks: number, now: number): void {
    if (outputBlocks <= booking.outputBlocks) return
    booking.outputBlocks = outputBlocks
    recordOutput(booking, now)
    this.#owesMore(booking, 'moved', now)
    this.#ledger.progress(booking.entry, outputBlocks, now)
  }

  /** Records that a running stream owes further output, if the gateway reads it and the pace is learned. */
  #owesMore(booking: Booking, step: 'begun' | 'moved', now: number): void {
    if (!isWatched(booking)) return
    for (const { engine, legRole } of booking.legs) {
      if (endsAtFirstToken(legRole) || isOpaque(engine.spec)) continue
      const { isDecodeLearned, reportMs, prefilledS } = this.#ledger.expected(engine, now)
      if (!isDecodeLearned) continue
      const pace = { reportMs, prefilledS, now }
      booking.stream = step === 'begun' ? engine.streams.begun(pace) : engine.streams.moved(booking.stream, pace)
    }
  }

  /** The end of a booking without a first token. A client that leaves late is evidence, an early one is none. */
  #settleOwed({ owed, legs, isOfPeer, admission }: Booking, { result }: Outcome, now: number): void {
    if (owed !== null) {
      const [{ engine }] = legs as [Booking['legs'][number]]
      if (result === 'client_gone' || result === 'abandoned')
        engine.owed.abandoned(owed, { now, isLearned: this.#ledger.expected(engine, now).isLearned })
      else engine.owed.settled(owed)
    }
    if (result === 'client_gone' && !isOfPeer) for (const { engine } of legs) engine.abandoned.add(admission, now)
  }

  /** A stream that ends early while it is overdue stays as evidence. */
  #owesNoMore({ stream, legs }: Booking, { result, failure }: Outcome, now: number): void {
    if (stream === null) return
    for (const { engine, legRole } of legs) {
      if (endsAtFirstToken(legRole)) continue
      if (result === 'complete' && failure === null) engine.streams.completed(stream, now)
      else {
        const { prefilledS, isLearned } = this.#ledger.expected(engine, now)
        const longUntil = engine.owed.longPrefillUntil(engine.movedAt, isLearned)
        engine.streams.abandoned(stream, now, { prefilledS, longUntil })
      }
    }
  }

  /** Restores the progress of a booking that was made again. */
  catchUp(booking: Booking, { firstTokenSeen, legsDone, outputBlocks, ageMs = 0 }: BookingProgress, now: number): void {
    // The fence did not reach a booking that had expired by then.
    if (booking.legs.some(({ engine }) => engine.fencedAt > now - ageMs)) booking.isFenced = true
    for (const legRole of legsDone) this.legDone(booking, { legRole, stages: {} }, now)
    if (firstTokenSeen) this.firstToken(booking, {}, now)
    // Its output was counted before.
    this.#moveTo(booking, outputBlocks, now)
  }

  end(booking: Booking, outcome: Outcome, now: number): void {
    this.#costs.ended(booking, outcome, now)
    if (!booking.firstTokenSeen) this.#settleOwed(booking, outcome, now)
    else this.#owesNoMore(booking, outcome, now)
    endAdapter(booking, outcome.failure === 'lacks_model', now)
    this.#load.release(booking, now)
    this.#ledger.release(booking.entry, outcome, now)
    if (!booking.isOfPeer) {
      if (booking.logged !== null) this.#decisions.settle(booking.logged, outcome)
      // What progress has not counted: the last block, and responses without progress.
      const tokens = outcome.usage?.completionTokens ?? this.#estimatedTokens(booking, outcome)
      this.#history.output(Math.max(0, tokens - this.#tokensOf(booking.outputBlocks)), now)
    }
    for (let at = 0; at < booking.legs.length; at++) {
      const { engine, legRole } = booking.legs[at]!
      // A split request's usage is the decode engine's: its cached tokens are the transferred ones.
      if (legRole === 'whole' && outcome.usage !== null) engine.sawUsage(outcome.usage)
      // Once per engine, even if it encoded several items.
      const isFirst = booking.legs.findIndex((leg) => leg.engine === engine) === at
      // How the response ends is no evidence about the engine of a leg that ended before.
      const isJudged = hasLegEnded(booking, legRole) && outcome.failedEngine !== engine.spec.id
      if (isFirst && !isJudged) this.#judgeEnd(engine, booking, outcome, now)
      if (engine.spec.server !== undefined && isServed(booking, outcome)) engine.servedTotal += 1
      this.#engines.left(engine)
    }
  }

  /** Output of a stream that was not parsed; of others, progress has counted it. */
  #estimatedTokens({ admission }: Booking, { result, estimatedTokens }: Outcome): number {
    if (estimatedTokens !== null) return estimatedTokens ?? 0
    if (result !== 'complete') return 0
    return Math.round((admission.sequences ?? 1) * (this.#ledger.sources.output.tokens ?? 0))
  }

  /** A block counts from its first token, so all but the last are full. */
  #tokensOf(outputBlocks: number): number {
    return Math.max(0, outputBlocks - 1) * this.#blockTokens
  }

  #judgeEnd(engine: EngineState, booking: Booking, outcome: Outcome, now: number): void {
    const signalOf = engine.spec.isGateway === true ? gatewaySignal : circuitSignal
    // A trial is no excuse: it was sent later, and answered before.
    const isMoving = engine.outputAt > booking.sentAt
    const { failure, failedEngine = engine.spec.id } = outcome
    if (failure !== null && failure !== 'paused' && failedEngine === engine.spec.id)
      engine.lastFailure = { failure, at: now }
    const isUnreachable = outcome.failure === 'connect' || outcome.failure === 'connect_timeout'
    const isOfServer = isUnreachable || (outcome.failure === 'reset' && !booking.firstTokenSeen)
    const signal = signalOf(engine.spec.id, booking, outcome, isMoving)
    this.#engines.judge(engine, signal, { booking, now, isUnreachable, isOfServer })
    if (outcome.result === 'complete' && outcome.failure === null) recordOutput(booking, now)
  }

  #judge(engine: EngineState, signal: CircuitSignal, booking: Booking, now: number): void {
    this.#engines.judge(engine, signal, { booking, now })
  }
}

/** Whether the engine has counted the request as completed. */
const isServed = ({ isOfPeer, admission }: Booking, { result, failure }: Outcome): boolean =>
  !isOfPeer && result === 'complete' && failure === null && admission.promptTokens > 0

/** Other replicas report output only from time to time. */
const isWatched = ({ admission, isOfPeer }: Booking): boolean => admission.reportsOutput === true && !isOfPeer

/** Records that the answering engine produced output. */
function recordOutput({ legs }: Booking, now: number): void {
  for (const { engine, legRole } of legs) if (!endsAtFirstToken(legRole)) engine.moved(now)
}

function withoutTtft(stages: StageTimes): StageTimes {
  const { ttft: _, ...own } = stages
  return own
}
