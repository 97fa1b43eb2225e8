import type { SpareRankings } from '../routing/ranked.ts'
import type { Choice } from './choose.ts'
import type { Decision, Outcome } from './contract.ts'

interface Kept extends Choice {
  decision: Decision
  /** The same request's attempt before, while that is kept. */
  earlier: Kept | null
}

/** The last decisions, for `explain`: bounded, the oldest goes first. Found by booking key (`id#attempt`) or by id, which means the last attempt. */
export class Decisions {
  readonly #limit: number
  readonly #spare: SpareRankings
  /** A ring: once full, the oldest is at `#next`. */
  readonly #kept: Kept[] = []
  #next = 0
  /** The last attempt of each request. */
  readonly #byId = new Map<string, Kept>()

  /** @param spare where the rankings of forgotten decisions go. */
  constructor(limit: number, spare: SpareRankings) {
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

  /** What came of it. */
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
  }

  /** The last ones, newest first, without their candidates. */
  latest(limit: number): Decision[] {
    const newest = [...this.#kept.slice(this.#next), ...this.#kept.slice(0, this.#next)]
    return newest.slice(-limit).reverse().map(({ decision }) => decision)
  }

  find(idOrKey: string): Decision | null {
    const [, id = '', attempt = ''] = /^(.*)#(\d+)$/s.exec(idOrKey) ?? []
    const kept = this.#byId.get(idOrKey) ?? this.#attempt(id, Number(attempt))
    return kept === null ? null : told(kept)
  }

  #attempt(id: string, attempt: number): Kept | null {
    let kept = this.#byId.get(id) ?? null
    while (kept !== null && kept.decision.attempt !== attempt) kept = kept.earlier
    return kept
  }

  #forget(oldest: Kept): void {
    let last = this.#byId.get(oldest.decision.id)
    if (last === oldest) this.#byId.delete(oldest.decision.id)
    while (last !== undefined && last.earlier !== null && last.earlier !== oldest) last = last.earlier
    if (last?.earlier === oldest) last.earlier = null
    this.#spare.give(oldest.ranked)
  }
}

/** A choice for whoever asks why: with its candidates as objects. */
export function told({ decision, ranked }: Choice): Decision {
  return { ...decision, candidates: ranked.flatMap((one) => one.candidates()) }
}
