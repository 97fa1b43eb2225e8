import type { Decision, Outcome } from './contract.ts'

/** The last decisions, for `explain`: bounded, the oldest goes first. Found by booking key (`id#attempt`) or by id, which means the last attempt. */
export class Decisions {
  readonly #limit: number
  readonly #byKey = new Map<string, Decision>()
  readonly #lastKey = new Map<string, string>()

  constructor(limit: number) {
    this.#limit = limit
  }

  add(key: string, decision: Decision): void {
    this.#byKey.delete(key)
    this.#byKey.set(key, decision)
    this.#lastKey.set(decision.id, key)
    if (this.#byKey.size <= this.#limit) return
    const [oldestKey, oldest] = this.#byKey.entries().next().value!
    this.#byKey.delete(oldestKey)
    if (this.#lastKey.get(oldest.id) === oldestKey) this.#lastKey.delete(oldest.id)
  }

  /** What came of it. */
  settle(key: string, outcome: Outcome): void {
    const decision = this.#byKey.get(key)
    if (decision === undefined) return
    const actual = {
      ttftMs: outcome.stages.ttft ?? outcome.stages.first_byte ?? null,
      cachedTokens: outcome.usage?.cachedTokens ?? null,
      result: outcome.result,
    }
    this.#byKey.set(key, { ...decision, actual })
  }

  find(idOrKey: string): Decision | null {
    return this.#byKey.get(this.#lastKey.get(idOrKey) ?? idOrKey) ?? null
  }
}
