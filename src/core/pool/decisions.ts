import type { RankingPool } from '../routing/ranking.ts'
import type { Choice, DecisionResult } from './decide.ts'
import type { Admission, Decision, Outcome, RefusalReason, StageTimes } from '../contract/contract.ts'

/** Number of decisions of one kind since the object started. Every label is of a closed list. */
export interface DecisionCount {
  /** Policy; '' if refused. */
  readonly policy: string
  /** Policy that could not be used; '': none. */
  readonly fallback: string
  /** Whether it was a retry. */
  readonly retry: boolean
  /** Kind of the placement; '' if refused. */
  readonly placement: string
  /** Reason of the refusal; '' if placed. */
  readonly refused: string
  readonly count: number
  /** Whether the shadow policy chose the same; '': no shadow. Absent from older objects, as is the next. */
  readonly shadow?: '' | 'agrees' | 'differs'
  /** Sum of the predicted gains of the shadow policy, seconds; negative: losses. */
  readonly shadowGainS?: number
  /** Circuits were ignored (panic mode). Absent: they were respected, or the object is older. */
  readonly panic?: boolean
}

type Count = { -readonly [Key in keyof DecisionCount]: DecisionCount[Key] }
type Kind = Omit<DecisionCount, 'count' | 'shadowGainS'>

/** Counts decisions by policy, fallback and refusal. */
export class DecisionCounts {
  /** A short list, searched linearly. */
  readonly #counts: Count[] = []

  /** A hedge is no retry: nothing failed. One that is refused has no effect on its request, so it is not counted. */
  add(chosen: DecisionResult, { attempt, hedge = false }: Pick<Admission, 'attempt' | 'hedge'>): void {
    const retry = attempt > 0 && !hedge
    if (hedge && 'refusal' in chosen) return
    if ('refusal' in chosen) {
      const { reason, limit } = chosen.refusal
      const refused = limit === undefined ? reason : `${reason}_${limit}`
      return this.#count({ policy: '', fallback: '', retry, placement: '', refused })
    }
    const { policy, fallback, placement, shadow, panic = false } = chosen.decision
    const shadowed = shadow === null ? '' : shadow.agrees === true ? 'agrees' : 'differs'
    this.#count(
      {
        policy,
        fallback: fallback?.from ?? '',
        retry,
        placement: placement.kind,
        refused: '',
        shadow: shadowed,
        ...(panic ? { panic } : {}),
      },
      { gainS: (shadow?.predictedGainMs ?? 0) / 1000 },
    )
  }

  /** Edges answered in place of the pool. */
  refusedByEdge(count: number): void {
    this.#count({ policy: '', fallback: '', retry: false, placement: '', refused: 'overloaded_edge' }, { count })
  }

  list(): DecisionCount[] {
    return this.#counts.map((one) => ({ ...one }))
  }

  #count(of: Kind, { count = 1, gainS = 0 } = {}): void {
    const known = this.#counts.find((one) => isKind(one, of))
    if (known === undefined) this.#counts.push({ ...of, count, shadowGainS: gainS })
    else {
      known.count += count
      known.shadowGainS = (known.shadowGainS ?? 0) + gainS
    }
  }
}

function isKind(one: Kind, of: Kind): boolean {
  const { policy, fallback, retry, placement, refused, shadow = '', panic = false } = of
  return (
    one.policy === policy &&
    one.placement === placement &&
    one.fallback === fallback &&
    one.retry === retry &&
    one.refused === refused &&
    (one.shadow ?? '') === shadow &&
    (one.panic ?? false) === panic
  )
}

interface Kept extends Choice {
  decision: Decision
  /** Previous attempt of the same request, if stored. */
  earlier: Kept | null
}

/** Decisions kept for the dashboard by their first token or end, while newer requests start. */
const MEASURED_KEPT = 64

/** Log of the last decisions: a ring buffer, indexed by booking key (`id#attempt`) and by id (the last attempt). */
export class Decisions {
  readonly #limit: number
  readonly #spare: RankingPool
  /** Ring buffer: once full, the oldest decision is at `#next`. */
  readonly #kept: Kept[] = []
  #next = 0
  /** Those with the latest first tokens and ends, the latest last. */
  readonly #measured = new Set<Kept>()
  /** The last attempt of each request. */
  readonly #byId = new Map<string, Kept>()

  /** @param spare where the rankings of forgotten decisions go. */
  constructor(limit: number, spare: RankingPool) {
    this.#limit = limit
    this.#spare = spare
  }

  add({ decision, ranked }: Choice): void {
    const oldest = this.#kept[this.#next]
    if (oldest !== undefined) this.#forget(oldest)
    const kept: Kept = { decision, ranked, earlier: this.#byId.get(decision.id) ?? null }
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

  #remember(kept: Kept): void {
    this.#measured.delete(kept)
    this.#measured.add(kept)
    if (this.#measured.size > MEASURED_KEPT) this.#measured.delete(this.#measured.values().next().value!)
  }

  #attempt(id: string, attempt: number): Kept | null {
    let kept = this.#byId.get(id) ?? null
    while (kept !== null && kept.decision.attempt !== attempt) kept = kept.earlier
    return kept
  }

  #forget(oldest: Kept): void {
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
