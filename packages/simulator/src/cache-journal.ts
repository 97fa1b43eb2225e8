import type { SequenceContent } from './sequence.ts'

/** A change of an engine's prefix cache. Keys have two lanes per block. */
export type CacheChange =
  | {
      readonly kind: 'stored'
      readonly content: SequenceContent
      /** Keys of all full blocks of the sequence; those from `from` to `to` are new. */
      readonly blocks: Uint32Array
      readonly from: number
      readonly to: number
    }
  | { readonly kind: 'removed'; readonly low: number; readonly high: number }
  | { readonly kind: 'cleared' }

/** Collects changes until a step ends, as vLLM does. A reset between two steps is published with the next step. */
export class CacheJournal {
  #changes: CacheChange[] = []

  get isEmpty(): boolean {
    return this.#changes.length === 0
  }

  add(change: CacheChange): void {
    this.#changes.push(change)
  }

  take(): readonly CacheChange[] {
    const changes = this.#changes
    this.#changes = []
    return changes
  }
}
