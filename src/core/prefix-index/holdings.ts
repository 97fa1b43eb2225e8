import { type BlockTree, CHILDREN, HOLDERS, HOLDING, LENGTH, LIVE_HOLDERS, NODE_STRIDE } from './block-tree.ts'
import { RecordSlab } from './record-slab.ts'

/** Fields of a holding: the part of one run that one engine holds. */
export const NODE = 0
export const ENGINE = 1
/** Leading blocks of the run that the engine holds; all while the run is live. */
export const HELD = 2
/** Live requests on the engine that use the run. */
export const LIVE = 3
const PREVIOUS = 4
export const NEXT = 5
/** The next holding of the same run. */
export const SIBLING = 6
/** Holding of the parent run by the same engine. */
export const PARENT_HOLDING = 7
/** Stamp of its last use, for eviction over all engines. */
export const STAMP = 8
const INVALID = 9
export const HOLDING_STRIDE = 10

export const NONE = -1

/** Totals and lists of one engine. */
class EngineShare {
  /** Blocks held, live or cached, without invalidated ones. */
  cached = 0
  /** Blocks of live requests, shared ones counted once. */
  live = 0
  /** List of evictable holdings, most recent first. The last one is evicted first and is always a leaf. */
  first = NONE
  last = NONE
  /** List of live holdings, unordered. */
  firstLive = NONE
}

/**
 * Table of the runs that each engine holds. Invariant: an engine that holds a block holds all blocks before it,
 * because engines free the end of a prompt first.
 */
export class Holdings {
  readonly tree: BlockTree
  readonly records = new RecordSlab(HOLDING_STRIDE)
  readonly shares: EngineShare[] = []
  /** Entries over all engines, including invalidated ones: what uses memory. */
  entries = 0
  liveEntries = 0

  constructor(tree: BlockTree) {
    this.tree = tree
  }

  addEngine(): number {
    return this.shares.push(new EngineShare()) - 1
  }

  find(node: number, engine: number): number {
    const words = this.records.words
    let at = this.tree.nodes.words[node * NODE_STRIDE + HOLDING]!
    while (at !== NONE && words[at * HOLDING_STRIDE + ENGINE] !== engine) at = words[at * HOLDING_STRIDE + SIBLING]!
    return at
  }

  /** Creates an empty holding in no list; call `makeLive` next. */
  create(node: number, engine: number, parent: number): number {
    const holding = this.records.alloc()
    const at = holding * HOLDING_STRIDE
    const words = this.records.words
    words[at + NODE] = node
    words[at + ENGINE] = engine
    words[at + HELD] = 0
    words[at + LIVE] = 0
    words[at + PARENT_HOLDING] = parent
    words[at + STAMP] = 0
    words[at + INVALID] = 0
    this.#joinNode(holding, node)
    return holding
  }

  /** Adds a live request: the engine holds, or will hold, the whole run. */
  makeLive(holding: number): void {
    const at = holding * HOLDING_STRIDE
    const words = this.records.words
    const share = this.shares[words[at + ENGINE]!]!
    const node = words[at + NODE]! * NODE_STRIDE
    const length = this.tree.nodes.words[node + LENGTH]!
    const held = words[at + HELD]!
    if (words[at + INVALID] === 1) {
      words[at + INVALID] = 0
      share.cached += held
    }
    share.cached += length - held
    this.entries += length - held
    words[at + HELD] = length
    if (words[at + LIVE]!++ > 0) return
    if (held > 0) this.#unlink(holding, share)
    this.#linkLive(holding, share)
    this.tree.nodes.words[node + LIVE_HOLDERS]!++
    share.live += length
    this.liveEntries += length
  }

  /** Removes a live request. true: it was the last; call `makeEvictable` or `drop` next. */
  endLive(holding: number): boolean {
    const at = holding * HOLDING_STRIDE
    const words = this.records.words
    words[at + LIVE]!--
    if (words[at + LIVE]! > 0) return false
    const share = this.shares[words[at + ENGINE]!]!
    const node = words[at + NODE]! * NODE_STRIDE
    const length = this.tree.nodes.words[node + LENGTH]!
    this.tree.nodes.words[node + LIVE_HOLDERS]!--
    share.live -= length
    this.liveEntries -= length
    return true
  }

  /** Makes a run evictable, as the most recently used one. */
  makeEvictable(holding: number, stamp: number): void {
    const at = holding * HOLDING_STRIDE
    const share = this.shares[this.records.words[at + ENGINE]!]!
    this.#unlinkLive(holding, share)
    this.records.words[at + STAMP] = stamp
    this.#linkAfter(holding, NONE, share)
  }

  isInvalid(holding: number): boolean {
    return this.records.words[holding * HOLDING_STRIDE + INVALID] === 1
  }

  /** Removes a leaf holding, and its run if no other engine holds it. */
  drop(holding: number, wasLive: boolean): void {
    const at = holding * HOLDING_STRIDE
    const words = this.records.words
    const share = this.shares[words[at + ENGINE]!]!
    if (wasLive) this.#unlinkLive(holding, share)
    else this.#unlink(holding, share)
    if (words[at + INVALID] === 0) share.cached -= words[at + HELD]!
    this.entries -= words[at + HELD]!
    const node = words[at + NODE]!
    this.#leaveNode(holding, node)
    this.records.free(holding)
    if (this.tree.nodes.words[node * NODE_STRIDE + HOLDERS] === 0) this.tree.remove(node)
  }

  /** Truncates the holding to its first `held` (at least one) blocks. */
  truncate(holding: number, held: number): void {
    const at = holding * HOLDING_STRIDE
    const words = this.records.words
    const share = this.shares[words[at + ENGINE]!]!
    const node = words[at + NODE]!
    share.cached -= words[at + HELD]! - held
    this.entries -= words[at + HELD]! - held
    words[at + HELD] = held
    if (this.tree.nodes.words[node * NODE_STRIDE + HOLDERS] === 1) this.tree.shrink(node, held)
  }

  /** Whether its end can be truncated without a gap: only if the run has no children. */
  isLeaf(holding: number): boolean {
    const node = this.records.words[holding * HOLDING_STRIDE + NODE]!
    return this.tree.nodes.words[node * NODE_STRIDE + CHILDREN] === 0
  }

  /** Invalidates all holdings of the engine; live ones are removed when they end. */
  invalidate(engine: number): void {
    const share = this.shares[engine]!
    while (share.last !== NONE) this.drop(share.last, false)
    const words = this.records.words
    for (let at = share.firstLive; at !== NONE; at = words[at * HOLDING_STRIDE + NEXT]!)
      words[at * HOLDING_STRIDE + INVALID] = 1
    share.cached = 0
  }

  /** Drops holdings last used before that stamp. Stamps wrap around: compare by difference. */
  sweep(engine: number, stamp: number): void {
    const share = this.shares[engine]!
    while (share.last !== NONE && ((this.records.words[share.last * HOLDING_STRIDE + STAMP]! - stamp) | 0) <= 0)
      this.drop(share.last, false)
  }

  /** Splits a run and its holdings; returns the upper run. */
  split(node: number, length: number): number {
    if (!this.#heldBeyond(node, length)) {
      this.tree.shrink(node, length)
      return node
    }
    const upper = this.tree.split(node, length)
    const lowerAt = node * NODE_STRIDE
    let next = this.tree.nodes.words[lowerAt + HOLDING]!
    this.tree.nodes.words[lowerAt + HOLDING] = NONE
    this.tree.nodes.words[lowerAt + HOLDERS] = 0
    while (next !== NONE) {
      const holding = next
      next = this.records.words[holding * HOLDING_STRIDE + SIBLING]!
      if (this.records.words[holding * HOLDING_STRIDE + HELD]! > length) this.#splitHolding(holding, upper, length)
      else {
        this.records.words[holding * HOLDING_STRIDE + NODE] = upper
        this.#joinNode(holding, upper)
      }
    }
    return upper
  }

  #heldBeyond(node: number, length: number): boolean {
    const words = this.records.words
    let at = this.tree.nodes.words[node * NODE_STRIDE + HOLDING]!
    while (at !== NONE && words[at * HOLDING_STRIDE + HELD]! <= length) at = words[at * HOLDING_STRIDE + SIBLING]!
    return at !== NONE
  }

  /** The holding stays with the lower run and keeps its children; the upper part is new. */
  #splitHolding(holding: number, upper: number, length: number): void {
    const share = this.shares[this.records.words[holding * HOLDING_STRIDE + ENGINE]!]!
    const above = this.records.alloc()
    const words = this.records.words
    const at = holding * HOLDING_STRIDE
    words.copyWithin(above * HOLDING_STRIDE, at, at + HOLDING_STRIDE)
    words[above * HOLDING_STRIDE + NODE] = upper
    words[above * HOLDING_STRIDE + HELD] = length
    words[at + HELD]! -= length
    words[at + PARENT_HOLDING] = above
    const node = words[at + NODE]!
    this.#joinNode(above, upper)
    this.#joinNode(holding, node)
    if (words[at + LIVE]! > 0) {
      this.tree.nodes.words[upper * NODE_STRIDE + LIVE_HOLDERS]!++
      this.#linkLive(above, share)
    } else this.#linkAfter(above, words[at + PREVIOUS]!, share)
  }

  #joinNode(holding: number, node: number): void {
    const at = node * NODE_STRIDE
    const nodes = this.tree.nodes.words
    this.records.words[holding * HOLDING_STRIDE + SIBLING] = nodes[at + HOLDING]!
    nodes[at + HOLDING] = holding
    nodes[at + HOLDERS]!++
  }

  #leaveNode(holding: number, node: number): void {
    const nodes = this.tree.nodes.words
    const words = this.records.words
    const next = words[holding * HOLDING_STRIDE + SIBLING]!
    nodes[node * NODE_STRIDE + HOLDERS]!--
    let at = nodes[node * NODE_STRIDE + HOLDING]!
    if (at === holding) {
      nodes[node * NODE_STRIDE + HOLDING] = next
      return
    }
    while (words[at * HOLDING_STRIDE + SIBLING] !== holding) at = words[at * HOLDING_STRIDE + SIBLING]!
    words[at * HOLDING_STRIDE + SIBLING] = next
  }

  /** Inserts into the evictable list after `previous`; at its head for NONE. */
  #linkAfter(holding: number, previous: number, share: EngineShare): void {
    const words = this.records.words
    const next = previous === NONE ? share.first : words[previous * HOLDING_STRIDE + NEXT]!
    words[holding * HOLDING_STRIDE + PREVIOUS] = previous
    words[holding * HOLDING_STRIDE + NEXT] = next
    if (previous === NONE) share.first = holding
    else words[previous * HOLDING_STRIDE + NEXT] = holding
    if (next === NONE) share.last = holding
    else words[next * HOLDING_STRIDE + PREVIOUS] = holding
  }

  #unlink(holding: number, share: EngineShare): void {
    const words = this.records.words
    const previous = words[holding * HOLDING_STRIDE + PREVIOUS]!
    const next = words[holding * HOLDING_STRIDE + NEXT]!
    if (previous === NONE) share.first = next
    else words[previous * HOLDING_STRIDE + NEXT] = next
    if (next === NONE) share.last = previous
    else words[next * HOLDING_STRIDE + PREVIOUS] = previous
  }

  #linkLive(holding: number, share: EngineShare): void {
    const words = this.records.words
    words[holding * HOLDING_STRIDE + PREVIOUS] = NONE
    words[holding * HOLDING_STRIDE + NEXT] = share.firstLive
    if (share.firstLive !== NONE) words[share.firstLive * HOLDING_STRIDE + PREVIOUS] = holding
    share.firstLive = holding
  }

  #unlinkLive(holding: number, share: EngineShare): void {
    const words = this.records.words
    const previous = words[holding * HOLDING_STRIDE + PREVIOUS]!
    const next = words[holding * HOLDING_STRIDE + NEXT]!
    if (previous === NONE) share.firstLive = next
    else words[previous * HOLDING_STRIDE + NEXT] = next
    if (next !== NONE) words[next * HOLDING_STRIDE + PREVIOUS] = previous
  }
}

/**
 * Stamp of the deepest run that the engine holds on the tree's path; null: live, or none. Stamps wrap around: compare
 * by difference.
 */
export function lastUsed(holdings: Holdings, engine: number): number | null {
  const { path, depth } = holdings.tree
  const { words } = holdings.records
  for (let at = depth - 1; at >= 0; at--) {
    const holding = holdings.find(path[at]!, engine) * HOLDING_STRIDE
    if (holding >= 0) return words[holding + LIVE]! > 0 ? null : words[holding + STAMP]!
  }
  return null
}

/** Evictable run over all engines that was used least recently. Stamps wrap around: compare by difference. */
export function leastRecentlyUsed(holdings: Holdings): number {
  const { words } = holdings.records
  let oldest = NONE
  for (const { last } of holdings.shares) {
    if (last === NONE) continue
    if (oldest === NONE || ((words[last * HOLDING_STRIDE + STAMP]! - words[oldest * HOLDING_STRIDE + STAMP]!) | 0) < 0)
      oldest = last
  }
  return oldest
}

/** Blocks of the engine that are live or were used after that stamp, which wraps around. O(number of runs). */
export function usedSince(holdings: Holdings, engine: number, stamp: number): number {
  const { words } = holdings.records
  const { first, live } = holdings.shares[engine]!
  let blocks = live
  for (
    let at = first;
    at !== NONE && ((words[at * HOLDING_STRIDE + STAMP]! - stamp) | 0) > 0;
    at = words[at * HOLDING_STRIDE + NEXT]!
  ) {
    blocks += words[at * HOLDING_STRIDE + HELD]!
  }
  return blocks
}
