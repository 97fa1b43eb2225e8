import { keyAt } from '../../../../simulator/src/block-keys.ts'

/** Blocks that a router has sent to one engine, in LRU order. */
export class SentBlocks {
  readonly #maxBlocks: number
  readonly #keys = new Set<number>()

  constructor(maxBlocks: number) {
    this.#maxBlocks = maxBlocks
  }

  get size(): number {
    return this.#keys.size
  }

  /** Returns the number of leading known blocks among the first `limit`. */
  match(blocks: Uint32Array, limit = Infinity): number {
    const count = Math.min(limit, blocks.length >> 1)
    let at = 0
    while (at < count && this.#keys.has(keyAt(blocks, at))) at += 1
    return at
  }

  /** Adds a prompt, tail first, so that its head is evicted last. */
  add(blocks: Uint32Array, limit = Infinity): void {
    for (let at = Math.min(limit, blocks.length >> 1) - 1; at >= 0; at -= 1) {
      const key = keyAt(blocks, at)
      this.#keys.delete(key)
      this.#keys.add(key)
    }
  }

  /** Evicts the least recently used blocks beyond the limit. */
  trim(): void {
    for (const key of this.#keys) {
      if (this.#keys.size <= this.#maxBlocks) return
      this.#keys.delete(key)
    }
  }
}
