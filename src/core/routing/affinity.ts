import { PREFIX_KEY_BLOCKS } from '../pool/decide.ts'
import type { Admission } from '../contract/contract.ts'
import { placementKey } from './fallback.ts'
import { nextDepth } from './prefix-filter.ts'

/** Share of prompts above which a prefix is ubiquitous and no affinity key. */
const CROWD_SHARE = 1 / 8
/** Prompts assumed before the first one, all different. */
const BEFORE = 64
/** Count at which all counters are halved. */
const HALVED_AFTER = 512

/**
 * Affinity keys: the session, or the first blocks that are not shared by most prompts. Prompts with one key prefer one
 * cluster if clusters are equal. A system prompt sent by every client as key would route all to one cluster.
 */
export class AffinityKeys {
  readonly #counts = new Map<number, number>()
  #seen = 0

  /** Counts the prompt and returns its key. null: its prefix is ubiquitous. */
  keyOf(admission: Pick<Admission, 'id' | 'blocks' | 'session'>): number | null {
    const first = placementKey(admission)
    const { blocks, session } = admission
    const most = blocks.length >> 1
    if (session !== null || most === 0) return first
    this.#count()
    let key = first
    for (let depth = PREFIX_KEY_BLOCKS; this.#isCrowd(key); depth = nextDepth(depth)) {
      if (depth >= most) return null
      key = blocks[2 * (Math.min(most, nextDepth(depth)) - 1)]!
    }
    return key
  }

  #isCrowd(key: number): boolean {
    const count = (this.#counts.get(key) ?? 0) + 1
    this.#counts.set(key, count)
    return count > (BEFORE + this.#seen) * CROWD_SHARE
  }

  #count(): void {
    this.#seen += 1
    if (this.#seen < HALVED_AFTER) return
    this.#seen /= 2
    for (const [key, count] of this.#counts) {
      if (count < 2) this.#counts.delete(key)
      else this.#counts.set(key, count / 2)
    }
  }
}
