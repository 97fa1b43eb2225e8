import type { Decision } from '../contract/decision.ts'
import type { Outcome } from '../contract/outcome.ts'
import type { RefusalReason } from '../contract/refusal.ts'
import type { StageTimes } from '../contract/stages.ts'
import type { RankingPool } from '../routing/ranking.ts'
import type { Choice } from './decision-result.ts'

interface LogEntry extends Choice {
  decision: Decision
  /** Previous attempt of the same request, if stored. */
  earlier: LogEntry | null
}

/** Decisions kept for the dashboard by their first token or end, while newer requests start. */
const MEASURED_KEPT = 64

/** Log of the last decisions: a ring buffer, indexed by booking key (`id#attempt`) and by id (the last attempt). */
export class DecisionLog {
  readonly #limit: number
  readonly #spare: RankingPool
  /** Ring buffer: once full, the oldest decision is at `#next`. */
  readonly #kept: LogEntry[] = []
  #next = 0
  /** Those with the latest first tokens and ends, the latest last. */
  readonly #measured = new Set<LogEntry>()
  /** The last attempt of each request. */
  readonly #byId = new Map<string, LogEntry>()

  /** @param spare where the rankings of forgotten decisions go. */
  constructor(limit: number, spare: RankingPool) {
    this.#limit = limit
    this.#spare = spare
  }

  add({ decision, ranked }: Choice): void {
    const oldest = this.#kept[this.#next]
    if (oldest !== undefined) this.#forget(oldest)
    const kept: LogEntry = { decision, ranked, earlier: this.#byId.get(decision.id) ?? null }
    this.#kept[this.#next] = kept
    this.#next = (this.#next + 1) % this.#limit
    this.#byId.set(decision.id, kept)
  }

  /** Returns the predicted TTFT. null: there is none. */
  firstToken({ id, attempt }: Pick<Decision, 'id' | 'attempt'>, stages: StageTimes): number | null {
    const kept = this.#attempt(id, attempt)
    const ttftMs = stages.ttft ?? stages.first_byte
    if (kept === null || ttftMs === undefined) return null
    kept.decision = { ...kept.decision, firstToken: { ttftMs, stages } }
    this.#remember(kept)
    return kept.decision.predictedTtftMs
  }

  /** Stores the outcome of a decision. */
  settle({ id, attempt }: Pick<Decision, 'id' | 'attempt'>, outcome: Outcome): void {
    const kept = this.#attempt(id, attempt)
    if (kept === null) return
    const actual = {
      ttftMs: outcome.stages.ttft ?? outcome.stages.first_byte ?? null,
      cachedTokens: outcome.usage?.cachedTokens ?? null,
      result: outcome.result,
      stages: outcome.stages,
    }
    kept.decision = { ...kept.decision, actual }
    this.#remember(kept)
  }

  /** Stores why the last attempt was not retried. */
  retryRefused(id: string, reason: RefusalReason): void {
    const kept = this.#byId.get(id)
    if (kept !== undefined) kept.decision = { ...kept.decision, retryRefused: reason }
  }

  /** Returns the last decisions, newest first, without candidates. */
  latest(limit: number): Decision[] {
    const newest = [...this.#kept.slice(this.#next), ...this.#kept.slice(0, this.#next)]
    return newest
      .slice(-limit)
      .reverse()
      .map(({ decision }) => decision)
  }

  /** Those with the latest first tokens and ends, the latest first, without their candidates. */
  measured(limit: number): Decision[] {
    return [...this.#measured]
      .slice(-limit)
      .reverse()
      .map(({ decision }) => decision)
  }

  find(idOrKey: string): Decision | null {
    const [, id = '', attempt = ''] = /^(.*)#(\d+)$/s.exec(idOrKey) ?? []
    const last = this.#byId.get(idOrKey) ?? null
    // A hedge that lost tells less than the attempt that answered.
    const answered = last?.decision.hedge === true && last.decision.actual?.result === 'abandoned' ? last.earlier : last
    const kept = answered ?? last ?? this.#attempt(id, Number(attempt))
    return kept === null ? null : toDecision(kept)
  }

  #remember(kept: LogEntry): void {
    this.#measured.delete(kept)
    this.#measured.add(kept)
    if (this.#measured.size > MEASURED_KEPT) this.#measured.delete(this.#measured.values().next().value!)
  }

  #attempt(id: string, attempt: number): LogEntry | null {
    let kept = this.#byId.get(id) ?? null
    while (kept !== null && kept.decision.attempt !== attempt) kept = kept.earlier
    return kept
  }

  #forget(oldest: LogEntry): void {
    this.#measured.delete(oldest)
    let last = this.#byId.get(oldest.decision.id)
    if (last === oldest) this.#byId.delete(oldest.decision.id)
    while (last !== undefined && last.earlier !== null && last.earlier !== oldest) last = last.earlier
    if (last?.earlier === oldest) last.earlier = null
    this.#spare.give(oldest.ranked)
  }
}

/** Converts a choice to a decision with its candidates as objects. */
export function toDecision({ decision, ranked }: Choice): Decision {
  return { ...decision, candidates: ranked.flatMap((one) => one.candidates()) }
}
