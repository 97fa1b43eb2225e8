import type { Ranked, SpareRankings } from '../routing/ranked.ts'
import type { Choice } from './choose.ts'
import type { Decision, Outcome } from './contract.ts'

interface Kept {
  readonly key: string
  decision: Decision
  readonly ranked: readonly Ranked[]
}

/** The last decisions, for `explain`: bounded, the oldest goes first. Found by booking key (`id#attempt`) or by id, which means the last attempt. */
export class Decisions {
  readonly #limit: number
  readonly #spare: SpareRankings
  /** A ring: once full, the oldest is at `#next`. */
  readonly #kept: Kept[] = []
  #next = 0
  readonly #byKey = new Map<string, Kept>()
  /** By id, its last attempt. */
  readonly #last = new Map<string, Kept>()

  /** @param spare where the rankings of forgotten decisions go. */
  constructor(limit: number, spare: SpareRankings) {
    this.#limit = limit
    this.#spare = spare
  }

  add(key: string, { decision, ranked }: Choice): void {
    const kept: Kept = { key, decision, ranked }
    const oldest = this.#kept[this.#next]
    if (oldest !== undefined) this.#forget(oldest)
    this.#kept[this.#next] = kept
    this.#next = (this.#next + 1) % this.#limit
    this.#byKey.set(key, kept)
    this.#last.set(decision.id, kept)
  }

  /** What came of it. */
  settle(key: string, outcome: Outcome): void {
    const kept = this.#byKey.get(key)
    if (kept === undefined) return
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
    const kept = this.#last.get(idOrKey) ?? this.#byKey.get(idOrKey)
    return kept === undefined ? null : told(kept)
  }

  #forget(oldest: Kept): void {
    if (this.#byKey.get(oldest.key) === oldest) this.#byKey.delete(oldest.key)
    if (this.#last.get(oldest.decision.id) === oldest) this.#last.delete(oldest.decision.id)
    this.#spare.give(oldest.ranked)
  }
}

/** A choice for whoever asks why: with its candidates as objects. */
export function told({ decision, ranked }: Choice): Decision {
  return { ...decision, candidates: ranked.flatMap((one) => one.candidates()) }
}
