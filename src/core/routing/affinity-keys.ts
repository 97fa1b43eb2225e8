import type { Admission } from '../contract/admission.ts'
import { hashText } from './placement-hash.ts'
import { nextDepth } from '../prefix-index/prefix-filter.ts'

/** Fields that affinity reads. */
export type AffinityFields = Pick<Admission, 'id' | 'blocks' | 'session' | 'tenant'>

/** Leading blocks that identify a prompt for affinity without an index. */
const PREFIX_KEY_BLOCKS = 4

/** Key of the leading blocks. Hashes are chained, so one lane of the last block identifies all. */
function prefixKey({ id, blocks }: Pick<Admission, 'id' | 'blocks'>): number {
  const count = Math.min(blocks.length >> 1, PREFIX_KEY_BLOCKS)
  return count === 0 ? hashText(id) : blocks[2 * (count - 1)]!
}

/** Share of prompts above which a prefix is ubiquitous and no affinity key. */
const UBIQUITOUS_SHARE = 1 / 8

/** Prompts assumed before the first one, all different. */
const PRIOR_PROMPTS = 64

/** Count at which all counters are halved. */
const HALVE_AT = 512

/**
 * Affinity keys: the session, or the first blocks that are not shared by most prompts. Prompts with one key prefer one
 * cluster if clusters are equal. A system prompt sent by every client as key would route all to one cluster.
 */
export class AffinityKeys {
  readonly #counts = new Map<number, number>()
  #prompts = 0

  /** Counts the prompt and returns its key. null: its prefix is ubiquitous. */
  keyOf(admission: AffinityFields): number | null {
    const first = affinityKey(admission)
    const { blocks, session } = admission
    const maxDepth = blocks.length >> 1
    if (session !== null || maxDepth === 0) return first
    this.#count()
    let key = first
    for (let depth = PREFIX_KEY_BLOCKS; this.#isUbiquitous(key); depth = nextDepth(depth)) {
      if (depth >= maxDepth) return null
      key = blocks[2 * (Math.min(maxDepth, nextDepth(depth)) - 1)]!
    }
    return key
  }

  #isUbiquitous(key: number): boolean {
    const count = (this.#counts.get(key) ?? 0) + 1
    this.#counts.set(key, count)
    return count > (PRIOR_PROMPTS + this.#prompts) * UBIQUITOUS_SHARE
  }

  #count(): void {
    this.#prompts += 1
    if (this.#prompts < HALVE_AT) return
    this.#prompts /= 2
    for (const [key, count] of this.#counts) {
      if (count < 2) this.#counts.delete(key)
      else this.#counts.set(key, count / 2)
    }
  }
}

/** Affinity key of a request: its session, else its first blocks. */
export const affinityKey = (admission: AffinityFields): number => sessionKey(admission) ?? prefixKey(admission)

/** Hash of a session within its tenant: two tenants that name the same id have two sessions. null: none is named. */
export const sessionKey = ({ session, tenant }: Pick<Admission, 'session' | 'tenant'>): number | null =>
  session === null ? null : hashText(`${tenant}\0${session}`)
