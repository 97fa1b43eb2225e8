import type { IdBuffer } from './id-buffer.ts'

const SLOTS = 1 << 14

const ARENA_BYTES = 512 * 1024

const ARENA_IDS = 128 * 1024

/** Longest piece in the cache, bytes; longer ones repeat too rarely. */
export const CACHED_BYTES = 64

interface Piece {
  readonly bytes: Uint8Array
  readonly from: number
  readonly to: number
}

/**
 * Cache of ids of merged pieces, such as words that are not one token. Fixed memory (about 1.3 MB): one slot per hash;
 * a newer piece replaces the older one, and the cache is cleared when its space for bytes or ids is full.
 */
export class PieceCache {
  /** Per slot: start and length of the bytes, start and number of the ids. Length 0: empty. */
  readonly #slots = new Int32Array(SLOTS * 4)
  readonly #bytes = new Uint8Array(ARENA_BYTES)
  readonly #ids = new Uint32Array(ARENA_IDS)
  #usedBytes = 0
  #usedIds = 0

  /** Slot of a cached piece. -1: not cached. `hash` is the hash of the bytes. */
  find(bytes: Uint8Array, from: number, to: number, hash: number): number {
    const slot = (hash & (SLOTS - 1)) * 4
    if (this.#slots[slot + 1] !== to - from) return -1
    let at = this.#slots[slot] as number
    for (let i = from; i < to; i++) if (bytes[i] !== this.#bytes[at++]) return -1
    return slot
  }

  /** Appends the ids of the piece in `slot`. */
  append(slot: number, out: IdBuffer): void {
    const start = this.#slots[slot + 2] as number
    const count = this.#slots[slot + 3] as number
    const target = out.reserve(count)
    for (let i = start; i < start + count; i++) target[out.length++] = this.#ids[i] as number
  }

  /** Stores the last `count` ids of `out` for the piece `bytes[from, to)` with this hash. */
  store(piece: Piece, hash: number, out: IdBuffer, count: number): void {
    const { bytes, from, to } = piece
    if (this.#usedBytes + to - from > ARENA_BYTES || this.#usedIds + count > ARENA_IDS) {
      this.#slots.fill(0)
      this.#usedBytes = 0
      this.#usedIds = 0
    }
    const slots = this.#slots
    const slot = (hash & (SLOTS - 1)) * 4
    slots[slot] = this.#usedBytes
    slots[slot + 1] = to - from
    slots[slot + 2] = this.#usedIds
    slots[slot + 3] = count
    // For short moves loops are faster than `set` and the views it needs.
    for (let i = from; i < to; i++) this.#bytes[this.#usedBytes++] = bytes[i] as number
    for (let i = out.length - count; i < out.length; i++) this.#ids[this.#usedIds++] = out.ids[i] as number
  }
}
