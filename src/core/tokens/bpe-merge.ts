/**
 * Byte-pair merging of one piece: merges the neighbours with the lowest order, leftmost among equals, until none is
 * left.
 */
import type { IdBuffer } from './id-buffer.ts'
import { KEPT_BYTES, LongPieceLimit, SHORT_BYTES } from './long-pieces.ts'
import { SYMBOL_BITS, SYMBOL_LENGTH, type Vocabulary } from './vocabulary.ts'

export class BpeMerger {
  readonly #vocabulary: Vocabulary
  readonly #starts = new Int32Array(SHORT_BYTES + 1)
  readonly #ids = new Uint32Array(SHORT_BYTES)
  readonly #merged = new Uint32Array(SHORT_BYTES)
  readonly #orders = new Float64Array(SHORT_BYTES)
  #pairChain: PairChain | null = null
  readonly #longPieces = new LongPieceLimit()
  /** Steps so far: pairs scanned and heap levels passed. Tests check that they grow linearly. */
  steps = 0

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary
  }

  /** Call before each text. */
  begin(): void {
    this.#longPieces.begin()
  }

  /** Appends the ids of `bytes[from, to)`. Throws if the text exceeds the limit of long pieces. */
  merge(bytes: Uint8Array, from: number, to: number, out: IdBuffer): void {
    if (!this.#longPieces.add(to - from)) {
      this.#short(bytes, from, to, out)
      return
    }
    this.#pairChain ??= new PairChain(this.#vocabulary)
    this.steps += this.#pairChain.merge(bytes, from, to, out)
    if (to - from > KEPT_BYTES) this.#pairChain = null
  }

  #short(bytes: Uint8Array, from: number, to: number, out: IdBuffer): void {
    const starts = this.#starts
    const ids = this.#ids
    const orders = this.#orders
    const merged = this.#merged
    let count = 0
    for (let at = from; at < to;) {
      const symbol = this.#vocabulary.symbolAt(bytes, at)
      starts[count] = at
      ids[count++] = symbol >>> SYMBOL_BITS
      at += symbol & SYMBOL_LENGTH
    }
    starts[count] = to
    for (let i = 0; i < count - 1; i++) this.#weigh(bytes, i)
    while (count > 1) {
      let best = 0
      for (let i = 1; i < count - 1; i++) if ((orders[i] as number) < (orders[best] as number)) best = i
      this.steps += count
      if (orders[best] === Infinity) break
      ids[best] = merged[best] as number
      count--
      // For short moves a loop is faster than copyWithin.
      for (let i = best + 1; i < count; i++) {
        starts[i] = starts[i + 1] as number
        ids[i] = ids[i + 1] as number
        orders[i] = orders[i + 1] as number
        merged[i] = merged[i + 1] as number
      }
      starts[count] = to
      if (best < count - 1) this.#weigh(bytes, best)
      if (best > 0) this.#weigh(bytes, best - 1)
    }
    const target = out.reserve(count)
    for (let i = 0; i < count; i++) target[out.length++] = ids[i] as number
  }

  /** Computes the order of the pair that starts at token `i`, and its result. */
  #weigh(bytes: Uint8Array, i: number): void {
    const start = this.#starts[i] as number
    const id = this.#vocabulary.joined(bytes, start, this.#starts[i + 2] as number)
    this.#merged[i] = id
    this.#orders[i] =
      id < 0 ? Infinity : this.#vocabulary.order(id, this.#ids[i] as number, (this.#starts[i + 1] as number) - start)
  }
}

/** Byte-pair merging of long pieces: a linked list with a heap of pairs, n log n for any text. */
class PairChain {
  readonly #vocabulary: Vocabulary
  #next = new Int32Array(0)
  #previous = new Int32Array(0)
  #ids = new Uint32Array(0)
  #merged = new Int32Array(0)
  /** Order of the pair that starts here. Infinity: no pair. A heap entry with another order is stale. */
  #orders = new Float64Array(0)
  #heapOrders = new Float64Array(0)
  #heap = new Int32Array(0)
  #heapSize = 0
  #steps = 0

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary
  }

  /** Appends the ids of `bytes[from, to)`. Returns the number of steps. */
  merge(bytes: Uint8Array, from: number, to: number, out: IdBuffer): number {
    const count = to - from
    const piece = bytes.subarray(from, to)
    this.#reset(piece, count)
    while (this.#heapSize > 0) {
      const order = this.#heapOrders[0] as number
      const at = this.#pop()
      if (this.#orders[at] === order) this.#join(piece, at)
    }
    for (let i = 0; i < count; i = this.#next[i] as number) out.push(this.#ids[i] as number)
    return this.#steps
  }

  #reset(piece: Uint8Array, count: number): void {
    if (this.#ids.length < count) this.#grow(Math.max(count, 1024))
    this.#heapSize = 0
    this.#steps = 0
    for (let i = 0, previous = -1; i < count;) {
      const symbol = this.#vocabulary.symbolAt(piece, i)
      this.#next[i] = i + (symbol & SYMBOL_LENGTH)
      this.#previous[i] = previous
      this.#ids[i] = symbol >>> SYMBOL_BITS
      previous = i
      i = this.#next[i] as number
    }
    for (let i = 0; i < count; i = this.#next[i] as number) this.#weigh(piece, i)
  }

  #grow(count: number): void {
    this.#next = new Int32Array(count)
    this.#previous = new Int32Array(count)
    this.#ids = new Uint32Array(count)
    this.#merged = new Int32Array(count)
    this.#orders = new Float64Array(count)
    // One entry per pair at the start and two per merge; there are fewer merges than bytes.
    this.#heap = new Int32Array(count * 3)
    this.#heapOrders = new Float64Array(count * 3)
  }

  #join(piece: Uint8Array, at: number): void {
    const second = this.#next[at] as number
    const after = this.#next[second] as number
    this.#ids[at] = this.#merged[at] as number
    this.#next[at] = after
    this.#orders[second] = Infinity
    if (after < piece.length) this.#previous[after] = at
    this.#weigh(piece, at)
    const before = this.#previous[at] as number
    if (before >= 0) this.#weigh(piece, before)
  }

  #weigh(piece: Uint8Array, at: number): void {
    this.#orders[at] = Infinity
    const second = this.#next[at] as number
    if (second >= piece.length) return
    const id = this.#vocabulary.joined(piece, at, this.#next[second] as number)
    if (id < 0) return
    const order = this.#vocabulary.order(id, this.#ids[at] as number, second - at)
    if (order === Infinity) return
    this.#merged[at] = id
    this.#orders[at] = order
    this.#push(order, at)
  }

  #before(a: number, b: number): boolean {
    const left = this.#heapOrders[a] as number
    const right = this.#heapOrders[b] as number
    return left < right || (left === right && (this.#heap[a] as number) < (this.#heap[b] as number))
  }

  #swap(a: number, b: number): void {
    const order = this.#heapOrders[a] as number
    const at = this.#heap[a] as number
    this.#heapOrders[a] = this.#heapOrders[b] as number
    this.#heap[a] = this.#heap[b] as number
    this.#heapOrders[b] = order
    this.#heap[b] = at
    this.#steps++
  }

  #push(order: number, at: number): void {
    let i = this.#heapSize++
    this.#heapOrders[i] = order
    this.#heap[i] = at
    this.#steps++
    while (i > 0) {
      const parent = (i - 1) >> 1
      if (!this.#before(i, parent)) break
      this.#swap(i, parent)
      i = parent
    }
  }

  /** Removes the top of the heap. Returns the start of its pair. */
  #pop(): number {
    const top = this.#heap[0] as number
    this.#swap(0, --this.#heapSize)
    let i = 0
    for (;;) {
      let smallest = i
      if (2 * i + 1 < this.#heapSize && this.#before(2 * i + 1, smallest)) smallest = 2 * i + 1
      if (2 * i + 2 < this.#heapSize && this.#before(2 * i + 2, smallest)) smallest = 2 * i + 2
      if (smallest === i) return top
      this.#swap(i, smallest)
      i = smallest
    }
  }
}
