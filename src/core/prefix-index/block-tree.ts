import { BlockArena, MAX_RUN, orderOf } from './block-arena.ts'
import { RecordSlab } from './record-slab.ts'

/** Fields of a node. */
export const OFFSET = 0
export const LENGTH = 1
const PARENT = 2
export const CHILDREN = 3
/** First holding of this run; holdings.ts owns this field and the next two. */
export const HOLDING = 4
export const HOLDERS = 5
export const LIVE_HOLDERS = 6
export const NODE_STRIDE = 7

const NONE = -1
const FIRST_SLOTS = 64
const MAX_LOAD = 0.7

/**
 * All known block chains as one tree whose edges are runs of blocks. Hashes are chained, so a hash names its whole
 * prefix: one table from a run's first hash finds the next run, and one comparison at a run's end proves all of it.
 * A prompt of a thousand known blocks therefore costs a handful of look-ups instead of a thousand.
 */
export class BlockTree {
  readonly arena = new BlockArena()
  readonly nodes = new RecordSlab(NODE_STRIDE)
  #table = new Int32Array(FIRST_SLOTS)

  /** Result of the last `locate`: nodes from the root down. Only the first `depth` entries count. */
  path = new Int32Array(64)
  depth = 0
  /** Blocks that the path matches, in total and in its last node. */
  matched = 0
  lastMatched = 0

  get bytes(): number {
    return this.arena.bytes + this.nodes.bytes + this.#table.byteLength + this.path.byteLength
  }

  /** Bytes of the used entries, without the reserve of growing tables. */
  get usedBytes(): number {
    return this.arena.usedUnits * 9 + this.nodes.count * (NODE_STRIDE * 4 + 6)
  }

  length(node: number): number {
    return this.nodes.words[node * NODE_STRIDE + LENGTH]!
  }

  /** Finds the longest known prefix of the first `count` blocks. */
  locate(blocks: Uint32Array, count: number): void {
    const nodes = this.nodes.words
    let parent = NONE
    let at = 0
    let depth = 0
    let part = 0
    while (at < count) {
      const node = this.#find(blocks[at * 2]!, blocks[at * 2 + 1]!)
      if (node === NONE || nodes[node * NODE_STRIDE + PARENT] !== parent) break
      const length = nodes[node * NODE_STRIDE + LENGTH]!
      part = this.#common(nodes[node * NODE_STRIDE + OFFSET]!, Math.min(length, count - at), blocks, at)
      this.#setPath(depth++, node)
      at += part
      if (part < length) break
      parent = node
    }
    this.depth = depth
    this.matched = at
    this.lastMatched = part
  }

  /** Adds a run below the path's end to the path. */
  pushPath(node: number): void {
    this.#setPath(this.depth++, node)
  }

  /** Adds a child run of the blocks from..to (at most MAX_RUN). -1: another chain owns its first hash (a collision). */
  append(parent: number, blocks: Uint32Array, from: number, to: number): number {
    if (this.#find(blocks[from * 2]!, blocks[from * 2 + 1]!) !== NONE) return NONE
    const length = to - from
    const offset = this.arena.alloc(orderOf(length))
    this.arena.words.set(blocks.subarray(from * 2, to * 2), offset * 2)
    return this.#newNode(offset, length, parent)
  }

  /** Blocks by which `extend` may lengthen a run. */
  room(node: number): number {
    const at = node * NODE_STRIDE
    const words = this.nodes.words
    return words[at + CHILDREN] === 0 && words[at + LIVE_HOLDERS] === 0 ? MAX_RUN - words[at + LENGTH]! : 0
  }

  /** Extends a run without children. */
  extend(node: number, blocks: Uint32Array, from: number, to: number): void {
    const at = node * NODE_STRIDE
    const before = this.nodes.words[at + LENGTH]!
    const after = before + to - from
    if (orderOf(after) !== orderOf(before)) this.#move(node, after, before)
    const offset = this.nodes.words[at + OFFSET]!
    this.arena.words.set(blocks.subarray(from * 2, to * 2), (offset + before) * 2)
    this.nodes.words[at + LENGTH] = after
  }

  /** Truncates a run; the caller guarantees that no engine holds the rest. */
  shrink(node: number, length: number): void {
    const at = node * NODE_STRIDE
    const words = this.nodes.words
    const before = orderOf(words[at + LENGTH]!)
    words[at + LENGTH] = length
    if (orderOf(length) < before) this.arena.trim(words[at + OFFSET]!, before, orderOf(length))
  }

  /** Splits a run. `node` keeps its number and becomes the lower part; returns the new upper part. */
  split(node: number, length: number): number {
    const whole = this.nodes.words[node * NODE_STRIDE + LENGTH]!
    const offset = this.nodes.words[node * NODE_STRIDE + OFFSET]!
    const parent = this.nodes.words[node * NODE_STRIDE + PARENT]!
    this.#forget(node)
    const lower = this.arena.alloc(orderOf(whole - length))
    this.arena.words.copyWithin(lower * 2, (offset + length) * 2, (offset + whole) * 2)
    if (orderOf(length) < orderOf(whole)) this.arena.trim(offset, orderOf(whole), orderOf(length))
    const at = node * NODE_STRIDE
    this.nodes.words[at + OFFSET] = lower
    this.nodes.words[at + LENGTH] = whole - length
    const upper = this.#newNode(offset, length, parent)
    // The new node replaces the old one below the parent, whose number of children is unchanged.
    if (parent !== NONE) this.nodes.words[parent * NODE_STRIDE + CHILDREN]!--
    this.nodes.words[upper * NODE_STRIDE + CHILDREN] = 1
    this.nodes.words[at + PARENT] = upper
    this.#remember(node)
    return upper
  }

  /** Deletes a run without holders. It has no children, because a holder of a child holds its parent. */
  remove(node: number): void {
    this.#forget(node)
    const at = node * NODE_STRIDE
    const words = this.nodes.words
    const parent = words[at + PARENT]!
    if (parent !== NONE) words[parent * NODE_STRIDE + CHILDREN]!--
    this.arena.free(words[at + OFFSET]!, orderOf(words[at + LENGTH]!))
    this.nodes.free(node)
  }

  #newNode(offset: number, length: number, parent: number): number {
    const node = this.nodes.alloc()
    const at = node * NODE_STRIDE
    const words = this.nodes.words
    words[at + OFFSET] = offset
    words[at + LENGTH] = length
    words[at + PARENT] = parent
    words[at + CHILDREN] = 0
    words[at + HOLDING] = NONE
    words[at + HOLDERS] = 0
    words[at + LIVE_HOLDERS] = 0
    if (parent !== NONE) words[parent * NODE_STRIDE + CHILDREN]!++
    this.#remember(node)
    return node
  }

  /** Moves a run to a piece for `length` blocks. */
  #move(node: number, length: number, keep: number): void {
    const at = node * NODE_STRIDE
    const from = this.nodes.words[at + OFFSET]!
    const to = this.arena.alloc(orderOf(length))
    this.arena.words.copyWithin(to * 2, from * 2, (from + keep) * 2)
    this.arena.free(from, orderOf(keep))
    this.nodes.words[at + OFFSET] = to
  }

  /** Returns how many of `limit` blocks from `at` equal the run at `offset`. The first one is known to be equal. */
  #common(offset: number, limit: number, blocks: Uint32Array, at: number): number {
    const words = this.arena.words
    let good = 1
    let bad = limit + 1
    let probe = limit
    while (bad - good > 1) {
      const run = (offset + probe - 1) * 2
      const own = (at + probe - 1) * 2
      if (words[run] === blocks[own] && words[run + 1] === blocks[own + 1]) good = probe
      else bad = probe
      probe = (good + bad) >>> 1
    }
    return good
  }

  #setPath(at: number, node: number): void {
    if (at === this.path.length) {
      const path = new Int32Array(at * 2)
      path.set(this.path)
      this.path = path
    }
    this.path[at] = node
  }

  // The table: node + 1 at the slot of its first hash, linear probing, no tombstones.

  #find(lo: number, hi: number): number {
    const table = this.#table
    const mask = table.length - 1
    const nodes = this.nodes.words
    const words = this.arena.words
    for (let slot = mix(lo, hi) & mask; table[slot] !== 0; slot = (slot + 1) & mask) {
      const node = table[slot]! - 1
      const first = nodes[node * NODE_STRIDE + OFFSET]! * 2
      if (words[first] === lo && words[first + 1] === hi) return node
    }
    return NONE
  }

  #firstSlot(node: number): number {
    const first = this.nodes.words[node * NODE_STRIDE + OFFSET]! * 2
    return mix(this.arena.words[first]!, this.arena.words[first + 1]!) & (this.#table.length - 1)
  }

  #remember(node: number): void {
    if (this.nodes.count > this.#table.length * MAX_LOAD) this.#rehash()
    this.#place(node)
  }

  #place(node: number): void {
    const table = this.#table
    let slot = this.#firstSlot(node)
    while (table[slot] !== 0) slot = (slot + 1) & (table.length - 1)
    table[slot] = node + 1
  }

  #rehash(): void {
    const before = this.#table
    this.#table = new Int32Array(before.length * 2)
    for (const entry of before) if (entry !== 0) this.#place(entry - 1)
  }

  /** Removes a node from the table, and moves back displaced entries. */
  #forget(node: number): void {
    const table = this.#table
    const mask = table.length - 1
    let hole = this.#firstSlot(node)
    while (table[hole] !== node + 1) hole = (hole + 1) & mask
    for (let slot = (hole + 1) & mask; table[slot] !== 0; slot = (slot + 1) & mask) {
      const firstSlot = this.#firstSlot(table[slot]! - 1)
      if (((slot - firstSlot) & mask) < ((slot - hole) & mask)) continue
      table[hole] = table[slot]!
      hole = slot
    }
    table[hole] = 0
  }
}

function mix(lo: number, hi: number): number {
  const word = Math.imul(lo ^ (hi >>> 16) ^ (hi << 16), 0x9e3779b1)
  return word ^ (word >>> 15)
}
