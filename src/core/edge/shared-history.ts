import { type PoolHistory, STEP_MS, STEPS } from '../contract/pool-history.ts'
import { historyFrom, mergeHistories } from '../reports/merge-histories.ts'

const noHistory: PoolHistory = { steps: [], slices: [] }

/** History of one pool over isolates. Each isolate repeats its newest steps, so older ones are added once. */
export class SharedHistory {
  #settled = noHistory
  readonly #last = new Map<string, PoolHistory>()

  /** Adopts the newest steps of an isolate. */
  adopt(isolate: string, history: PoolHistory = noHistory, now: number): void {
    const before = this.#last.get(isolate) ?? noHistory
    const [steps, slices] = [startsOf(history.steps), startsOf(history.slices)]
    const dropped = {
      steps: before.steps.filter(({ at }) => !steps.has(at)),
      slices: before.slices.filter(({ at }) => !slices.has(at)),
    }
    this.#last.set(isolate, history)
    this.#settled = historyFrom(mergeHistories([this.#settled, dropped]), now - STEP_MS * STEPS)
  }

  forget(isolate: string, now: number): void {
    this.adopt(isolate, noHistory, now)
    this.#last.delete(isolate)
  }

  data(since: number): PoolHistory {
    return historyFrom(mergeHistories([this.#settled, ...this.#last.values()]), since)
  }
}

const startsOf = (parts: readonly { readonly at: number }[]): ReadonlySet<number> => new Set(parts.map(({ at }) => at))
