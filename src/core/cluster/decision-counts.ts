import type { Chosen } from './choose.ts'
import type { DecisionCount } from './decision-count.ts'

type Count = { -readonly [Key in keyof DecisionCount]: DecisionCount[Key] }
type Kind = Omit<DecisionCount, 'count' | 'shadowGainS'>

/** How often each policy chose, in whose place, and how often nobody was chosen. */
export class DecisionCounts {
  /** Few: looked through one by one. */
  readonly #counts: Count[] = []

  add(chosen: Chosen, attempt: number): void {
    const retry = attempt > 0
    if ('refusal' in chosen) return this.#count({ policy: '', fallback: '', retry, placement: '', refused: chosen.refusal.reason })
    const { policy, fallback, placement, shadow } = chosen.decision
    const shadowed = shadow === null ? '' : shadow.agrees === true ? 'agrees' : 'differs'
    this.#count({ policy, fallback: fallback?.from ?? '', retry, placement: placement.kind, refused: '', shadow: shadowed }, (shadow?.predictedGainMs ?? 0) / 1000)
  }

  list(): DecisionCount[] {
    return this.#counts.map((one) => ({ ...one }))
  }

  #count(of: Kind, gainS = 0): void {
    const known = this.#counts.find((one) => isKind(one, of))
    if (known === undefined) this.#counts.push({ ...of, count: 1, shadowGainS: gainS })
    else {
      known.count += 1
      known.shadowGainS = (known.shadowGainS ?? 0) + gainS
    }
  }
}

function isKind(one: Kind, of: Kind): boolean {
  const { policy, fallback, retry, placement, refused, shadow = '' } = of
  return one.policy === policy && one.placement === placement && one.fallback === fallback && one.retry === retry && one.refused === refused && (one.shadow ?? '') === shadow
}
