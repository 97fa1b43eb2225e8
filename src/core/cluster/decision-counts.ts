import type { Chosen } from './choose.ts'
import type { DecisionCount } from './decision-count.ts'

/** How often each policy chose, in whose place, and how often nobody was chosen. */
export class DecisionCounts {
  readonly #counts = new Map<string, { -readonly [Key in keyof DecisionCount]: DecisionCount[Key] }>()

  add(chosen: Chosen, attempt: number): void {
    const retry = attempt > 0
    if ('refusal' in chosen) return this.#count({ policy: '', fallback: '', retry, placement: '', refused: chosen.refusal.reason })
    const { policy, fallback, placement, shadow } = chosen.decision
    const shadowed = shadow === null ? '' : shadow.agrees === true ? 'agrees' : 'differs'
    this.#count({ policy, fallback: fallback?.from ?? '', retry, placement: placement.kind, refused: '', shadow: shadowed }, (shadow?.predictedGainMs ?? 0) / 1000)
  }

  list(): DecisionCount[] {
    return [...this.#counts.values()].map((one) => ({ ...one }))
  }

  #count(of: Omit<DecisionCount, 'count' | 'shadowGainS'>, gainS = 0): void {
    const key = `${of.policy} ${of.fallback} ${String(of.retry)} ${of.placement} ${of.refused} ${of.shadow ?? ''}`
    const known = this.#counts.get(key)
    if (known === undefined) this.#counts.set(key, { ...of, count: 1, shadowGainS: gainS })
    else {
      known.count += 1
      known.shadowGainS = (known.shadowGainS ?? 0) + gainS
    }
  }
}
