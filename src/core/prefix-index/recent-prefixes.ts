import { nextDepth } from './prefix-filter.ts'
import type { KvEventIndex } from './kv-event-index.ts'

/** Capacity for lanes of completed prompts on engines with KV events, twice. */
const MAX_RECENT = 8192

/**
 * Blocks of recent prompts on engines with KV events. Events have no depth, and booked blocks are dropped when events
 * arrive, so blocks at sampled depths are stored here by low lane.
 */
export class RecentPrefixes {
  #recent = new Map<number, number>()
  #before = this.#recent

  add(blocks: Uint32Array): void {
    for (let depth = 1; depth * 2 <= blocks.length; depth = nextDepth(depth))
      this.#recent.set(blocks[depth * 2 - 2]!, blocks[depth * 2 - 1]!)
    if (this.#recent.size < MAX_RECENT) return
    this.#before = this.#recent
    this.#recent = new Map()
  }

  /** Returns those that an engine still holds. */
  addTo(lanes: Set<number>, limit: number, exact: KvEventIndex): void {
    for (const generation of [this.#recent, this.#before]) {
      for (const [lo, hi] of generation) {
        if (lanes.size >= limit) return
        if (exact.isAnywhere(lo, hi)) lanes.add(lo)
      }
    }
  }
}
