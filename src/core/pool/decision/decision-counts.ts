import type { Mutable } from '../../mutable.ts'
import type { Admission } from '../../contract/admission.ts'
import type { DecisionCount } from '../../contract/pool-digest.ts'
import type { DecisionResult } from './decision-result.ts'

type Kind = Omit<DecisionCount, 'count' | 'shadowGainS'>

/** Counts decisions by policy, fallback and refusal. */
export class DecisionCounts {
  /** A short list, searched linearly. */
  readonly #counts: Mutable<DecisionCount>[] = []

  /** A second engine is no retry: nothing failed. If it is refused, its request goes on, so that is not counted. */
  add(chosen: DecisionResult, { attempt, second }: Pick<Admission, 'attempt' | 'second'>): void {
    const isSecond = second !== undefined
    if (isSecond && 'refusal' in chosen) return
    const retry = attempt > 0 && !isSecond
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

  /** Gateways answered in place of the pool. */
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
