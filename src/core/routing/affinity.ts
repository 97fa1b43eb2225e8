import { PREFIX_KEY_BLOCKS } from '../pool/decide.ts'
import type { Admission } from '../contract/contract.ts'
import { placementKey } from './fallback.ts'
import { nextDepth } from './prefix-filter.ts'

/** A beginning that so large a share of prompts has is everybody's, and says nothing of where one belongs. */
const CROWD_SHARE = 1 / 8
/** So many prompts are taken to have come before, none alike: who begins has no crowds. */
const BEFORE = 64
/** Then all that was counted counts half. */
const HALVED_AFTER = 512

/**
 * What a prompt has in common with those whose cache it can use: its session, or its first blocks, but no beginning that
 * all have. Prompts of one key prefer one cluster wherever clusters are alike: were it the key of a system prompt that
 * every client sends, they would all run there.
 */
export class AffinityKeys {
  readonly #counts = new Map<number, number>()
  #seen = 0

  /** Counts the prompt. null: everybody sends it, and it belongs nowhere. */
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
