/** Watches the engines of a pool: their condition, trials of silent ones, and events for the log. */
import { isOpaque } from '../../contract/pool-config.ts'
import type { Condition, HurtRequests } from '../../contract/pool-digest.ts'
import { ownTrialAt } from '../pool-engines/circuit.ts'
import { hurtFields } from './affected-requests.ts'
import { isDown, observed } from './engine-condition.ts'
import type { EngineState } from '../pool-engines/engine-state.ts'
import type { ExpectedTimes } from './expected-times.ts'
import type { PoolEvents } from '../pool-events.ts'
import { signsOf } from './condition-signs.ts'
import type { TrialSignal } from './engine-trials.ts'
import { SiblingPaces } from './sibling-paces.ts'
import { COMPARISON_MS, SlowEjection } from './slow-ejection.ts'

/** Interval of looks at the engines, ms. */
const LOOK_MS = 100

/** Interval of trials, ms: of an engine that has just gone out of use, and the longest. */
const MIN_EVERY_MS = 250
const MAX_EVERY_MS = 1_000

/** Share of the time for which an engine has been out of use that is the interval of its trials. */
const EVERY_SHARE = 1 / 80

/** Trials of one engine that may wait at the same time while it is out of use. */
const CONCURRENT_TRIALS = 4

const MIN_TRIAL_MS = 1_000
const MAX_TRIAL_MS = 10_000

/** Multiple of the predicted time after which a trial has failed, besides `MIN_TRIAL_MS`. */
const TRIAL_TIMES = 4

/** Share of the longest prefill of a waiting request for which a trial waits. */
const PREFILL_SHARE = 0.5

/** Time after its limit at which a trial without a result is repeated, ms. */
const LOST_TRIAL_MS = 2_000

/** Time after which a wedged engine that does not serve trials gets requests again, ms. */
const WEDGED_UNTRIED_MS = 10_000

/** Wedged engines from which a pool may be stalled. */
const MIN_STALLED = 2

/** A one-token request that the gateway sends on its own account. */
export interface TrialOrder {
  readonly engine: string
  readonly limitMs: number
}

interface WatchParts {
  readonly engines: () => readonly EngineState[]
  readonly events: PoolEvents
  /** Times that the engine should need. */
  readonly expected: (engine: EngineState, now: number) => ExpectedTimes
  /** Whether one more engine may be taken out of use. */
  readonly mayTakeOut: (engine: EngineState) => boolean
  readonly hurt: (engine: EngineState) => HurtRequests
  /** A slow engine is as fast as before. */
  readonly recovered: (engine: EngineState) => void
}

export class EngineWatch {
  readonly #parts: WatchParts
  readonly #slow: SlowEjection
  #lookedAt = -Infinity
  #isStalled = false

  constructor(parts: WatchParts) {
    this.#parts = parts
    this.#slow = new SlowEjection({
      mayTakeOut: parts.mayTakeOut,
      changed: (engine, now) => this.#ejected(engine, now),
    })
  }

  /** Judges all engines, at most every `LOOK_MS`. */
  look(now: number): void {
    if (now - this.#lookedAt < LOOK_MS) return
    this.#lookedAt = now
    const engines = this.#parts.engines()
    const paces = new SiblingPaces(engines, (engine) => this.#parts.expected(engine, now).paceS)
    for (const engine of engines) this.#judge(engine, paces, now)
    this.#judgePool(engines, now)
    for (const engine of engines) engine.changes.observe(engine, now)
  }

  /** Several engines that wedge together have a common cause, such as their network or file system. */
  #judgePool(engines: readonly EngineState[], now: number): void {
    const wedged = engines.filter(({ condition: { condition } }) => condition === 'wedged')
    const used = engines.filter(({ isLeaving, asleep }) => !isLeaving && !asleep)
    const isStalled = wedged.length >= MIN_STALLED && 2 * wedged.length >= used.length
    if (isStalled && !this.#isStalled) {
      const last = wedged.reduce((one, other) => (other.condition.since > one.condition.since ? other : one))
      const { condition, since } = last.condition
      const engine = last.spec.id
      this.#parts.events.raise({ event: 'pool_stalled', engine, condition, since, wedged: wedged.length }, now)
    }
    this.#isStalled = isStalled
  }

  /** Returns the trials that are due, which count as sent. */
  watch(now: number): readonly TrialOrder[] {
    this.look(now)
    const engines = this.#parts.engines()
    return [
      ...engines
        .filter((engine) => needsTrial(engine, now))
        .map((engine) => ordered(engine, this.#limitMs(engine, now), now)),
      ...this.#slow.due(engines, now).map((engine) => ordered(engine, COMPARISON_MS, now)),
    ]
  }

  /** The engine may be another one now: what it was is no evidence. */
  restarted(engine: EngineState, now: number): void {
    engine.usualPace.forget()
    engine.reported.forget()
    this.#slow.forget(engine, now)
  }

  /** Applies the result of a trial. */
  tried(engine: EngineState, { sentAt, result }: TrialSignal, now: number): void {
    engine.trials.ended(result, now)
    this.#slow.tried(engine, { sentAt, tookMs: result === 'passed' ? now - sentAt : null }, now)
    const { condition, since } = engine.condition
    const mayReturn = result === 'unclear' && condition === 'wedged' && now - since >= WEDGED_UNTRIED_MS
    if (result !== 'passed' && !mayReturn) return
    engine.answeredTrial(Math.max(sentAt, now))
    engine.owed.excuse({ now, isLearned: this.#parts.expected(engine, now).isLearned })
    engine.streams.excuse(now)
    this.#lookedAt = -Infinity
    this.look(now)
  }

  /** If first tokens come in time and only running streams are silent, a trial waits behind the queue. */
  #limitMs(engine: EngineState, now: number): number {
    const { owed, reported, movedAt } = engine
    const { trialMs, queuedMs, isLearned } = this.#parts.expected(engine, now)
    const usualMs = Math.max(MIN_TRIAL_MS, TRIAL_TIMES * trialMs, PREFILL_SHARE * owed.longestPrefillMs)
    const firstSince = owed.overdueSince(movedAt, { now, isLearned })
    if (firstSince === null) return Math.min(MAX_TRIAL_MS, usualMs) + queuedMs
    const { hasLongPrefill } = owed
    const isAtWork = reported.isAtWork({ since: firstSince, hasLongPrefill, now })
    return isAtWork ? MAX_TRIAL_MS : Math.min(MAX_TRIAL_MS, usualMs)
  }

  #judge(engine: EngineState, paces: SiblingPaces, now: number): void {
    const before = engine.condition
    const isExcused = isOpaque(engine.spec) || engine.asleep || engine.paused !== null
    const silentSince = isExcused ? null : this.#silentSince(engine, now)
    const signs = signsOf(engine, { silentSince, paces, now })
    const state = observed(before, signs, now)
    engine.condition = state
    if (state.condition === 'well') engine.wellAt = now
    if (state.condition !== 'wedged') engine.isTakenOut = false
    else if (!engine.isTakenOut && this.#parts.mayTakeOut(engine)) engine.isTakenOut = true
    if (state.condition !== before.condition) this.#changed(engine, before.condition, now)
    const own = paces.of(engine)
    if (own !== null && state.condition === 'well' && !signs.isBehind) engine.usualPace.observe(own.seconds, now)
    this.#slow.judge(engine, paces, now)
  }

  #ejected(engine: EngineState, now: number): void {
    const { events, hurt } = this.#parts
    const { since } = engine.condition
    const base = { engine: engine.spec.id, condition: 'slow', since } as const
    if (engine.isTooSlow) {
      engine.downSince ??= now
      return events.raise({ ...base, event: 'engine_down', hurt: hurtFields(hurt(engine)), taken_out: true }, now)
    }
    this.#parts.recovered(engine)
    if (engine.downSince === null || isDown(engine.condition.condition)) return
    events.raise({ ...base, event: 'engine_up', since: now, down_ms: now - engine.downSince }, now)
    engine.downSince = null
  }

  /** First tokens are overdue, or the running streams have stopped. */
  #silentSince(engine: EngineState, now: number): number | null {
    const { owed, streams, movedAt } = engine
    if (!owed.hasEvidence && streams.size === 0) return null
    const { isLearned, prefilledS } = this.#parts.expected(engine, now)
    const firstSince = owed.overdueSince(movedAt, { now, isLearned })
    const streamsSince = streams.overdueSince(now, { prefilledS, longUntil: owed.longPrefillUntil(movedAt, isLearned) })
    return firstSince === null || streamsSince === null
      ? (firstSince ?? streamsSince)
      : Math.min(firstSince, streamsSince)
  }

  #changed(engine: EngineState, before: Condition, now: number): void {
    const { events, hurt } = this.#parts
    const { condition, since } = engine.condition
    const id = engine.spec.id
    if (isDown(condition)) {
      engine.downSince ??= since
      if (!isDown(before))
        events.raise(
          {
            event: 'engine_down',
            engine: id,
            condition,
            since,
            hurt: hurtFields(hurt(engine)),
            taken_out: isOut(engine),
          },
          now,
        )
    } else if (engine.downSince !== null && condition !== 'suspect' && !engine.isTooSlow) {
      events.raise({ event: 'engine_up', engine: id, condition: before, since, down_ms: now - engine.downSince }, now)
      engine.downSince = null
    } else if (condition === 'slow' || condition === 'saturated')
      events.raise({ event: 'engine_behind', engine: id, condition, since, hurt: hurtFields(hurt(engine)) }, now)
  }
}

/** Whether the engine gets no requests because of its condition. */
const isOut = ({ condition: { condition }, isTakenOut }: EngineState): boolean =>
  condition === 'wedged' ? isTakenOut : true

/** The trial counts as sent. */
function ordered(engine: EngineState, limitMs: number, now: number): TrialOrder {
  engine.trials.sent({ sentAt: now, limitMs })
  return { engine: engine.spec.id, limitMs }
}

/** An engine that fails its health checks shows by them that it is back. */
function needsTrial(engine: EngineState, now: number): boolean {
  const { isSuspect, circuit, trials, spec, healthy, asleep, isLeaving, paused, downSince } = engine
  if (isOpaque(spec) || !healthy || asleep || isLeaving || paused !== null) return false
  if (!isSuspect && now < (ownTrialAt(circuit) ?? Infinity)) return false
  const everyMs = trialEveryMs(engine, now)
  const { running } = trials
  if (running === null) return now - trials.triedAt >= everyMs
  const waitedMs = now - running.sentAt
  if (downSince === null) return waitedMs > running.limitMs + LOST_TRIAL_MS
  // An engine that hung may never answer what it got meanwhile.
  return waitedMs >= Math.max(everyMs, running.limitMs / CONCURRENT_TRIALS)
}

/** An engine that is soon back is soon found, and one that is dead for hours gets few trials. */
function trialEveryMs({ downSince }: EngineState, now: number): number {
  if (downSince === null) return MAX_EVERY_MS
  return Math.min(MAX_EVERY_MS, Math.max(MIN_EVERY_MS, EVERY_SHARE * (now - downSince)))
}
