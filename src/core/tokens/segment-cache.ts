/**
 * Cache of token ids by the hash of a text (usually a message). Bounded in bytes; the least recently used entry is
 * dropped first.
 */
export class SegmentCache {
  readonly #entries = new Map<number, Uint32Array>()
  readonly #maxBytes: number
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Current size, bytes, with an estimate of each entry's overhead. */
  get bytes(): number {
    return this.#bytes
  }

  get(key: number): Uint32Array | undefined {
    const ids = this.#entries.get(key)
    if (ids === undefined) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, ids)
    return ids
  }

  set(key: number, ids: Uint32Array): void {
    const size = sizeOf(ids)
    if (size > this.#maxBytes / 4) return
    this.#drop(key)
    this.#entries.set(key, ids)
    this.#bytes += size
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#maxBytes) break
      this.#drop(oldest)
    }
  }

  #drop(key: number): void {
    const ids = this.#entries.get(key)
    if (ids === undefined) return
    this.#entries.delete(key)
    this.#bytes -= sizeOf(ids)
  }
}

const ENTRY_BYTES = 200
const sizeOf = (ids: Uint32Array): number => ids.byteLength + ENTRY_BYTES
