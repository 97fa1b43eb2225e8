import type { Decision, Outcome } from './contract.ts'
import { type PackedCandidates, pack, unpack } from './packed-candidates.ts'

interface Kept {
  readonly decision: Decision
  /** The decision's candidates, which it is kept without, once it is settled; null: it has them still. */
  readonly candidates: PackedCandidates | null
}

/** The last decisions, for `explain`: bounded, the oldest goes first. Found by booking key (`id#attempt`) or by id, which means the last attempt. */
export class Decisions {
  readonly #limit: number
  readonly #byKey = new Map<string, Kept>()
  readonly #lastKey = new Map<string, string>()

  constructor(limit: number) {
    this.#limit = limit
  }

  add(key: string, decision: Decision): void {
    this.#byKey.delete(key)
    this.#byKey.set(key, { decision, candidates: null })
    this.#lastKey.set(decision.id, key)
    if (this.#byKey.size <= this.#limit) return
    const [oldestKey, { decision: oldest }] = this.#byKey.entries().next().value!
    this.#byKey.delete(oldestKey)
    if (this.#lastKey.get(oldest.id) === oldestKey) this.#lastKey.delete(oldest.id)
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
    // Packed now, not when it was made: then a request was waiting for it.
    const candidates = kept.candidates ?? pack(kept.decision.candidates)
    this.#byKey.set(key, { candidates, decision: { ...kept.decision, candidates: [], actual } })
  }

  /** The last ones, newest first, without their candidates. */
  latest(limit: number): Decision[] {
    return [...this.#byKey.values()].slice(-limit).reverse().map(({ decision }) => ({ ...decision, candidates: [] }))
  }

  find(idOrKey: string): Decision | null {
    const kept = this.#byKey.get(this.#lastKey.get(idOrKey) ?? idOrKey)
    if (kept === undefined) return null
    return kept.candidates === null ? kept.decision : { ...kept.decision, candidates: unpack(kept.candidates) }
  }
}
