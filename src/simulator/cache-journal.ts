import type { SequenceContent } from './sequence.ts'

/** What changed in an engine's prefix cache. Keys are two lanes a block. */
export type CacheChange =
  | {
      readonly kind: 'stored'
      readonly content: SequenceContent
      /** Keys of all full blocks of the sequence; those from..to are new. */
      readonly blocks: Uint32Array
      readonly from: number
      readonly to: number
    }
  | { readonly kind: 'removed'; readonly low: number; readonly high: number }
  | { readonly kind: 'cleared' }

/** Collects changes until a step ends, as vLLM does: a reset between two steps is told with the next one. */
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
