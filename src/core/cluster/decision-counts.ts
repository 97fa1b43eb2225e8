import type { Chosen } from './choose.ts'
import type { DecisionCount } from './decision-count.ts'

/** How often each policy chose, in whose place, and how often nobody was chosen. */
export class DecisionCounts {
  readonly #counts = new Map<string, { -readonly [Key in keyof DecisionCount]: DecisionCount[Key] }>()

  add(chosen: Chosen, attempt: number): void {
    const retry = attempt > 0
    if ('refusal' in chosen) return this.#count({ policy: '', fallback: '', retry, placement: '', refused: chosen.refusal.reason })
    const { policy, fallback, placement } = chosen.decision
    this.#count({ policy, fallback: fallback?.from ?? '', retry, placement: placement.kind, refused: '' })
  }

  list(): DecisionCount[] {
    return [...this.#counts.values()].map((one) => ({ ...one }))
  }

  #count(of: Omit<DecisionCount, 'count'>): void {
    const key = `${of.policy} ${of.fallback} ${String(of.retry)} ${of.placement} ${of.refused}`
    const known = this.#counts.get(key)
    if (known === undefined) this.#counts.set(key, { ...of, count: 1 })
    else known.count += 1
  }
}
