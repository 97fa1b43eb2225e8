import type { EngineSpec } from '../../contract/pool-config.ts'
import { EngineState } from './engine-state.ts'

/** Engines of a pool by id, each with a unique slot. */
export class EngineTable {
  readonly #byId = new Map<string, EngineState>()
  readonly #freeSlots: number[] = []
  #all: readonly EngineState[] = []
  #slots = 0

  add(spec: EngineSpec, booked: Pick<EngineState, 'load' | 'estimators'>): EngineState {
    const record = new EngineState(this.#freeSlots.pop() ?? this.#slots++, spec, booked)
    this.#byId.set(spec.id, record)
    this.#all = [...this.#all, record]
    return record
  }

  remove(record: EngineState): void {
    this.#byId.delete(record.spec.id)
    this.#freeSlots.push(record.slot)
    this.#all = this.#all.filter((one) => one !== record)
  }

  get(id: string): EngineState | undefined {
    return this.#byId.get(id)
  }

  /** Returns the engines in the order of addition, including removed ones that drain. The array is never modified. */
  all(): readonly EngineState[] {
    return this.#all
  }
}
