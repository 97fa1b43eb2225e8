import { MAX_RUN } from './block-arena.ts'
import { BlockTree, HOLDERS, HOLDING, LIVE_HOLDERS, NODE_STRIDE } from './block-tree.ts'
import { KvEventIndex } from './kv-event-index.ts'
import {
  ENGINE,
  HELD,
  HOLDING_STRIDE,
  Holdings,
  LIVE,
  NODE,
  NONE,
  PARENT_HOLDING,
  SIBLING,
  lastUsed,
  leastRecentlyUsed,
  usedSince,
} from './holdings.ts'
import { samplePrefixes } from './prefix-sample.ts'
import { RecentPrefixes } from './recent-prefixes.ts'

/** Maximum bytes per (block, engine) entry over all tables. */
const BYTES_PER_ENTRY = 40
const HOLDING_BYTES = HOLDING_STRIDE * 4

/** Record of a live request's blocks. Pass it to `release` once. */
export interface Pin {
  readonly engine: number
  /** Deepest holding; -1 when nothing could be recorded. */
  readonly holding: number
  /** Leading blocks recorded; fewer than requested if the index is full of live blocks, or after a hash collision. */
  readonly blocks: number
}

/**
 * Which engine holds which prompt blocks: live ones for certain, others as an LRU of the engine's size predicts.
 * Written when a request is booked, not when the engine reports, so that siblings in a burst see each other.
 *
 * One `match` answers for all engines at once. Cost is in runs (stretches of blocks without a fork), not blocks.
 */
export class PrefixIndex {
  readonly #tree = new BlockTree()
  readonly #holdings = new Holdings(this.#tree)
  /** Blocks from the engines' KV events. */
  readonly exact = new KvEventIndex()
  readonly #recentPrefixes = new RecentPrefixes()
  #maxEntries = 0
  #maxBytes = 0
  readonly #capacity: number[] = []
  readonly #freeNumbers: number[] = []
  #stamp = 0

  /** Result of the last `match`, by engine: leading blocks estimated as cached, and held by live requests. */
  cached = new Int32Array(8)
  live = new Int32Array(8)
  /** Live requests that hold the `live` blocks. */
  sharers = new Int32Array(8)

  /** @param maxEntries hard cap on (block, engine) entries over all engines; memory is capped with it. */
  constructor(maxEntries: number, maxBytes = maxEntries * BYTES_PER_ENTRY) {
    this.limit(maxEntries, maxBytes)
  }

  /** Changes the maximum number of entries and evicts at once. */
  limit(maxEntries: number, maxBytes = maxEntries * BYTES_PER_ENTRY): void {
    if (!(maxEntries >= 1))
      throw new RangeError(`The prefix index needs room for at least one entry, got ${maxEntries}`)
    this.#maxEntries = maxEntries
    this.#maxBytes = maxBytes
    this.#enforceCap()
  }

  /** Adds an engine and returns its number. */
  addEngine(capacityBlocks = Infinity): number {
    const engine = this.#freeNumbers.pop() ?? this.#holdings.addEngine()
    this.#capacity[engine] = capacityBlocks
    if (engine >= this.cached.length) {
      this.cached = new Int32Array(this.cached.length * 2)
      this.live = new Int32Array(this.live.length * 2)
      this.sharers = new Int32Array(this.sharers.length * 2)
    }
    return engine
  }

  /** Removes an engine without live requests. Its number is reused. */
  removeEngine(engine: number): void {
    if (this.liveBlocks(engine) > 0) throw new Error(`engine ${engine} still has live blocks in the prefix index`)
    this.flush(engine)
    this.#freeNumbers.push(engine)
  }

  get entries(): number {
    return this.#holdings.entries
  }

  /** Bytes of all typed arrays, including reserves. */
  get bytes(): number {
    return this.#tree.bytes + this.#holdings.records.bytes + this.exact.bytes
  }

  cachedBlocks(engine: number): number {
    return Math.max(this.#holdings.shares[engine]!.cached, this.exact.count(engine))
  }

  liveBlocks(engine: number): number {
    return this.#holdings.shares[engine]!.live
  }

  /** Sets an engine's capacity in blocks and evicts at once. */
  setCapacity(engine: number, blocks: number): void {
    this.#capacity[engine] = blocks
    this.#enforce(engine)
  }

  /** Invalidates an engine's cache, such as after a restart. Live requests still count, but leave nothing behind. */
  flush(engine: number): void {
    this.#holdings.invalidate(engine)
    this.exact.clear(engine)
  }

  /** Applies stored and removed blocks of KV events. false: not enough room for all. */
  applyKvEvents(engine: number, stored: Uint32Array, removed: Uint32Array): boolean {
    this.exact.setAll(engine, removed, false)
    return this.exact.setAll(engine, stored, true, this.#maxEntries)
  }

  /** Stamp of the last use: a count of requests that ended, on any engine. */
  get stamp(): number {
    return this.#stamp
  }

  /** Drops holdings last used up to that stamp: KV events are authoritative for them. */
  sweep(engine: number, stamp: number): void {
    this.#holdings.sweep(engine, stamp)
  }

  /** Records a completed prompt of an engine with KV events, so that `sample` finds its blocks. */
  recordCompleted(blocks: Uint32Array): void {
    this.#recentPrefixes.add(blocks)
  }

  /**
   * Returns low lanes of blocks at sampled depths for `packFilter`, of prefixes that are live or were used last. A
   * hint: an engine with KV events may have evicted them.
   */
  sample(limit: number): Uint32Array {
    const lanes = samplePrefixes(this.#holdings, limit)
    this.#recentPrefixes.addTo(lanes, limit, this.exact)
    return Uint32Array.from(lanes)
  }

  /** Fills `cached` and `live` for the first `count` blocks. */
  match(blocks: Uint32Array, count: number): void {
    const tree = this.#tree
    tree.locate(blocks, count)
    this.cached.fill(0)
    this.live.fill(0)
    this.sharers.fill(0)
    const nodes = tree.nodes.words
    let end = tree.matched
    let part = tree.lastMatched
    let cachedSeen = 0
    let liveSeen = 0
    // From the deepest run up. A holder of a run holds all runs before it, so a run without new holders changes
    // nothing.
    for (let depth = tree.depth - 1; depth >= 0; depth--) {
      const at = tree.path[depth]! * NODE_STRIDE
      const start = end - part
      if (nodes[at + HOLDERS]! > cachedSeen || nodes[at + LIVE_HOLDERS]! > liveSeen) {
        const seen = this.#readRun(nodes[at + HOLDING]!, start, part)
        cachedSeen += seen.cached
        liveSeen += seen.live
      }
      end = start
      if (depth > 0) part = tree.length(tree.path[depth - 1]!)
    }
    if (this.exact.entries > 0) this.#addKvEvents(blocks, count)
  }

  /** Stamp of the engine's last use of the matched blocks; the current stamp if they are live or none matched. */
  lastUsed(engine: number): number {
    return (this.cached[engine] === 0 ? null : lastUsed(this.#holdings, engine)) ?? this.#stamp
  }

  /** Blocks of the engine used after that stamp: the capacity needed to still hold what was used then. */
  usedSince(engine: number, stamp: number): number {
    return usedSince(this.#holdings, engine, stamp)
  }

  /** Adds the blocks of KV events to `cached`. */
  #addKvEvents(blocks: Uint32Array, count: number): void {
    const { exact, cached } = this
    exact.match(blocks, count)
    for (let engine = Math.min(cached.length, exact.reach.length) - 1; engine >= 0; engine--)
      cached[engine] = Math.max(cached[engine]!, exact.reach[engine]!)
  }

  readonly #seen = { cached: 0, live: 0 }

  #readRun(first: number, start: number, part: number): { readonly cached: number; readonly live: number } {
    const words = this.#holdings.records.words
    const { cached, live, sharers } = this
    const seen = this.#seen
    seen.cached = 0
    seen.live = 0
    for (let holding = first; holding !== NONE; holding = words[holding * HOLDING_STRIDE + SIBLING]!) {
      const at = holding * HOLDING_STRIDE
      const engine = words[at + ENGINE]!
      if (cached[engine] === 0 && !this.#holdings.isInvalid(holding)) {
        cached[engine] = start + Math.min(part, words[at + HELD]!)
        seen.cached++
      }
      if (live[engine] === 0 && words[at + LIVE]! > 0) {
        live[engine] = start + part
        sharers[engine] = words[at + LIVE]!
        seen.live++
      }
    }
    return seen
  }

  /** Records a live request with these blocks, which the engine will cache. */
  pin(engine: number, blocks: Uint32Array, count: number): Pin {
    const room = Math.min(count, this.#maxEntries - this.#holdings.liveEntries)
    if (room <= 0) return { engine, holding: NONE, blocks: 0 }
    const recorded = this.#grow(blocks, room)
    const holding = this.#hold(engine)
    this.#enforce(engine)
    return { engine, holding, blocks: recorded }
  }

  /**
   * Ends a live request. Its blocks stay cached as the most recently used, except those after the first `keep`. Pass
   * the previously cached blocks if the prompt was never prefilled.
   */
  release(pin: Pin, keep = Infinity): void {
    const holdings = this.#holdings
    const stamp = (this.#stamp = (this.#stamp + 1) | 0)
    let end = pin.blocks
    let next = pin.holding
    while (next !== NONE) {
      const holding = next
      const at = holding * HOLDING_STRIDE
      next = holdings.records.words[at + PARENT_HOLDING]!
      const start = end - this.#tree.length(holdings.records.words[at + NODE]!)
      if (holdings.endLive(holding)) this.#settle(holding, stamp, keep - start)
      end = start
    }
    this.#enforce(pin.engine)
  }

  /** Number of recorded blocks that no other live request on the engine shares. */
  exclusiveBlocks(pin: Pin): number {
    const words = this.#holdings.records.words
    let blocks = 0
    let holding = pin.holding
    while (holding !== NONE && words[holding * HOLDING_STRIDE + LIVE] === 1) {
      blocks += this.#tree.length(words[holding * HOLDING_STRIDE + NODE]!)
      holding = words[holding * HOLDING_STRIDE + PARENT_HOLDING]!
    }
    return blocks
  }

  /** Ends a live run: kept, truncated to `keep` blocks, or dropped. */
  #settle(holding: number, stamp: number, keep: number): void {
    const holdings = this.#holdings
    const isTruncated = keep < holdings.records.words[holding * HOLDING_STRIDE + HELD]! && holdings.isLeaf(holding)
    if (holdings.isInvalid(holding) || (isTruncated && keep <= 0)) {
      holdings.drop(holding, true)
      return
    }
    if (isTruncated) holdings.truncate(holding, keep)
    holdings.makeEvictable(holding, stamp)
  }

  /** Extends and splits the tree's path to match the blocks. Returns how many it covers. */
  #grow(blocks: Uint32Array, count: number): number {
    const tree = this.#tree
    tree.locate(blocks, count)
    let parent = NONE
    if (tree.depth > 0) {
      const last = tree.depth - 1
      const node = tree.path[last]!
      parent = tree.lastMatched < tree.length(node) ? this.#holdings.split(node, tree.lastMatched) : node
      tree.path[last] = parent
    }
    let at = tree.matched
    if (parent !== NONE && at < count) {
      const more = Math.min(tree.room(parent), count - at)
      if (more > 0) tree.extend(parent, blocks, at, at + more)
      at += more
    }
    while (at < count) {
      const to = Math.min(at + MAX_RUN, count)
      const node = tree.append(parent, blocks, at, to)
      if (node === NONE) break
      tree.pushPath(node)
      parent = node
      at = to
    }
    return at
  }

  /** Makes the whole path live for the engine. Returns the deepest holding. */
  #hold(engine: number): number {
    const holdings = this.#holdings
    const { path, depth } = this.#tree
    let known = depth
    let deepest = NONE
    while (known > 0 && deepest === NONE) deepest = holdings.find(path[--known]!, engine)
    for (
      let holding = deepest;
      holding !== NONE;
      holding = holdings.records.words[holding * HOLDING_STRIDE + PARENT_HOLDING]!
    ) {
      holdings.makeLive(holding)
    }
    for (let at = deepest === NONE ? 0 : known + 1; at < depth; at++) {
      deepest = holdings.create(path[at]!, engine, deepest)
      holdings.makeLive(deepest)
    }
    return deepest
  }

  /** Evicts least recently used blocks until engine, entries and memory fit. Live blocks stay. */
  #enforce(engine: number): void {
    const holdings = this.#holdings
    const share = holdings.shares[engine]!
    const capacity = this.#capacity[engine]!
    while (share.cached > capacity && share.last !== NONE) this.#evict(share.last, share.cached - capacity)
    this.#enforceCap()
  }

  #enforceCap(): void {
    const holdings = this.#holdings
    while (holdings.entries > this.#maxEntries || this.usedBytes > this.#maxBytes) {
      const oldest = leastRecentlyUsed(holdings)
      if (oldest === NONE) return
      const excess = holdings.entries - this.#maxEntries
      this.#evict(oldest, excess > 0 ? excess : Infinity)
    }
  }

  #evict(holding: number, excess: number): void {
    const held = this.#holdings.records.words[holding * HOLDING_STRIDE + HELD]!
    if (held <= excess) this.#holdings.drop(holding, false)
    else this.#holdings.truncate(holding, held - excess)
  }

  /** Bytes of the used entries, which the limit counts. */
  get usedBytes(): number {
    return this.#tree.usedBytes + this.#holdings.records.count * HOLDING_BYTES
  }
}
