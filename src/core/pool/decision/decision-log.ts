import type { Decision } from '../../contract/decision.ts'
import type { Outcome, Result } from '../../contract/outcome.ts'
import type { RefusalReason } from '../../contract/refusal.ts'
import type { StageTimes } from '../../contract/stages.ts'
import type { Ranking, RankingPool } from '../../routing/ranking.ts'
import type { Choice } from './decision-result.ts'

/** Measured decisions kept for the dashboard, while newer requests start. */
const MEASURED_KEPT = 64

/** Each is measured at most twice, at its first token and at its end. */
const MEASUREMENTS_KEPT = 2 * MEASURED_KEPT

const NO_STAGES: StageTimes = {}

/** A decision in the log, and what was measured of it since. It becomes a `Decision` when somebody reads it. */
export class LoggedDecision {
  /** null: newer decisions have replaced it. */
  decision: Decision | null
  ranked: readonly Ranking[]
  /** Stages of the first token; undefined: it has not come. */
  stages: StageTimes | undefined = undefined
  /** Result; null: it has not ended. The next two are of its end, too. */
  result: Result | null = null
  finalStages: StageTimes = NO_STAGES
  cachedTokens: number | null = null
  retryRefused: RefusalReason | undefined = undefined

  constructor({ decision, ranked }: Choice) {
    this.decision = decision
    this.ranked = ranked
  }

  /** Removes the decision, which a booking may refer to for hours. Returns its rankings. */
  forget(): readonly Ranking[] {
    const { ranked } = this
    this.decision = null
    this.ranked = []
    return ranked
  }

  /** The decision with what was measured, without candidates; null: it was forgotten. */
  withMeasurements(): Decision | null {
    const { decision, stages, retryRefused } = this
    if (decision === null) return null
    return {
      ...decision,
      ...(stages === undefined ? {} : { firstToken: { ttftMs: ttftOf(stages)!, stages } }),
      ...(retryRefused === undefined ? {} : { retryRefused }),
      actual: this.#actual,
    }
  }

  get #actual(): Decision['actual'] {
    const { result, finalStages: stages, cachedTokens } = this
    return result === null ? null : { ttftMs: ttftOf(stages) ?? null, cachedTokens, result, stages }
  }
}

const ttftOf = ({ ttft, first_byte }: StageTimes): number | undefined => ttft ?? first_byte

/**
 * Log of the last decisions: a ring buffer, which is scanned for people and retries. Bookings refer to their own
 * decision, so that a request costs no search.
 */
export class DecisionLog {
  readonly #limit: number
  readonly #spare: RankingPool
  /** Ring buffer: once full, the oldest decision is at `#next`. */
  readonly #kept: LoggedDecision[] = []
  #next = 0
  /** Ring buffer of those with the latest first tokens and ends; the next one replaces the one at `#nextMeasured`. */
  readonly #measured: LoggedDecision[] = []
  #nextMeasured = 0

  /** @param spare where the rankings of forgotten decisions go. */
  constructor(limit: number, spare: RankingPool) {
    this.#limit = limit
    this.#spare = spare
  }

  add(choice: Choice): LoggedDecision {
    const oldest = this.#kept[this.#next]
    if (oldest !== undefined) this.#spare.give(oldest.forget())
    const logged = new LoggedDecision(choice)
    this.#kept[this.#next] = logged
    this.#next = (this.#next + 1) % this.#limit
    return logged
  }

  /** The decision of an attempt; null: it was forgotten, or made elsewhere. */
  of({ id, attempt }: Pick<Decision, 'id' | 'attempt'>): LoggedDecision | null {
    return this.#newest((decision) => decision.id === id && decision.attempt === attempt)
  }

  /** Returns the predicted TTFT. null: there is none. */
  firstToken(logged: LoggedDecision, stages: StageTimes): number | null {
    const { decision } = logged
    if (decision === null || ttftOf(stages) === undefined) return null
    logged.stages = stages
    this.#remember(logged)
    return decision.predictedTtftMs
  }

  /** Stores the outcome of a decision. */
  settle(logged: LoggedDecision, outcome: Outcome): void {
    if (logged.decision === null) return
    logged.result = outcome.result
    logged.finalStages = outcome.stages
    logged.cachedTokens = outcome.usage?.cachedTokens ?? null
    this.#remember(logged)
  }

  /** Stores why the last attempt was not retried. */
  retryRefused(id: string, reason: RefusalReason): void {
    const last = this.#newest((decision) => decision.id === id)
    if (last !== null) last.retryRefused = reason
  }

  /** Returns the last decisions, newest first, without candidates. */
  latest(limit: number): Decision[] {
    return decisionsOf([...this.#kept.slice(this.#next), ...this.#kept.slice(0, this.#next)], limit)
  }

  /** Those with the latest first tokens and ends, the latest first, without their candidates. */
  measured(limit: number): Decision[] {
    const inOrder = [...this.#measured.slice(this.#nextMeasured), ...this.#measured.slice(0, this.#nextMeasured)]
    const last = inOrder.filter((logged, at) => inOrder.lastIndexOf(logged) === at)
    return decisionsOf(last.slice(-MEASURED_KEPT), limit)
  }

  find(idOrKey: string): Decision | null {
    const [, id = '', attempt = ''] = /^(.*)#(\d+)$/s.exec(idOrKey) ?? []
    const last = this.#newest((decision) => decision.id === idOrKey)
    // A hedge that lost tells less than the attempt that answered.
    const isLostHedge = last?.decision?.hedge === true && last.result === 'abandoned'
    const answered = isLostHedge ? this.#newest((decision) => decision.id === idOrKey, last) : null
    const logged = answered ?? last ?? this.of({ id, attempt: Number(attempt) })
    const decision = logged?.withMeasurements() ?? null
    return decision === null ? null : toDecision({ decision, ranked: logged!.ranked })
  }

  /** @param but not this one */
  #newest(isIt: (decision: Decision) => boolean, but: LoggedDecision | null = null): LoggedDecision | null {
    for (let back = 1; back <= this.#kept.length; back++) {
      const logged = this.#kept[(this.#next - back + this.#kept.length) % this.#kept.length]!
      if (logged !== but && logged.decision !== null && isIt(logged.decision)) return logged
    }
    return null
  }

  #remember(logged: LoggedDecision): void {
    this.#measured[this.#nextMeasured] = logged
    this.#nextMeasured = (this.#nextMeasured + 1) % MEASUREMENTS_KEPT
  }
}

/** The last of these, in reverse. */
const decisionsOf = (inOrder: readonly LoggedDecision[], limit: number): Decision[] =>
  inOrder
    .filter(({ decision }) => decision !== null)
    .slice(-limit)
    .reverse()
    .map((logged) => logged.withMeasurements()!)

/** Converts a choice to a decision with its candidates as objects. */
export function toDecision({ decision, ranked }: Choice): Decision {
  return { ...decision, candidates: ranked.flatMap((one) => one.candidates()) }
}
