import type { ChainState } from '../tokens/block-hash.ts'
import type { EngineHash } from './event-batch.ts'

/** Receives changes of the engine's pool blocks, named by chained hashes. One block can be held several times. */
export interface BlockSink {
  hold(lo: number, hi: number): void
  drop(lo: number, hi: number): void
  clear(): void
}

/** Block of the engine: the hash chain up to its end. */
export class EngineBlock implements ChainState {
  /** Hash state of the chain, including the started pool block. */
  readonly lo: number
  readonly hi: number
  /** Engine blocks since the last end of a pool block; 0: one ends here. */
  readonly open: number
  /** Physical copies: two requests that computed the same block concurrently leave two. 0: removed, with successors. */
  copies = 0

  constructor({ lo, hi }: ChainState, open: number) {
    this.lo = lo
    this.hi = hi
    this.open = open
  }
}

/** One of several engine blocks in a pool block, with a list of its successors in it. */
class PartialBlock extends EngineBlock {
  readonly hash: EngineHash
  /** Predecessor in the pool block; null: the pool block starts here. */
  readonly before: PartialBlock | null
  first: PartialBlock | null = null
  next: PartialBlock | null = null
  previous: PartialBlock | null = null

  constructor(
    hash: EngineHash,
    {
      state,
      open,
      before,
    }: { readonly state: ChainState; readonly open: number; readonly before: PartialBlock | null },
  ) {
    super(state, open)
    this.hash = hash
    this.before = before
    if (before === null) return
    this.next = before.first
    if (this.next !== null) this.next.previous = this
    before.first = this
  }

  leave(): void {
    if (this.previous !== null) this.previous.next = this.next
    else if (this.before !== null) this.before.first = this.next
    if (this.next !== null) this.next.previous = this.previous
  }
}

/**
 * An engine's blocks by its own hashes, and the pool blocks that they form. A pool block is held while all its engine
 * blocks are present, in any order of removal. A removed block stays known while others in the same pool block continue
 * from it: at most as many as there are present ones, times the engine blocks of a pool block.
 */
export class EngineBlocks {
  readonly #sink: BlockSink
  readonly #byHash = new Map<EngineHash, EngineBlock>()

  constructor(sink: BlockSink) {
    this.#sink = sink
  }

  /** Number of blocks, including removed ones that are kept. */
  get size(): number {
    return this.#byHash.size
  }

  /** Returns the block; undefined: unknown. */
  get(hash: EngineHash): EngineBlock | undefined {
    return this.#byHash.get(hash)
  }

  /** Adds a copy. `state`: the hash chain up to the block's end. Returns the block. */
  add(
    hash: EngineHash,
    state: ChainState,
    { open, before }: { readonly open: number; readonly before: EngineBlock | null },
  ): EngineBlock {
    let known = this.#byHash.get(hash)
    if (known === undefined) {
      const inside = before instanceof PartialBlock && before.open > 0 ? before : null
      known =
        inside === null && open === 0
          ? new EngineBlock(state, open)
          : new PartialBlock(hash, { state, open, before: inside })
      this.#byHash.set(hash, known)
    }
    known.copies += 1
    if (known.copies === 1) this.#changed(known, true)
    return known
  }

  /** Removes a copy; no effect on an unknown block. */
  remove(hash: EngineHash): void {
    const known = this.#byHash.get(hash)
    if (known === undefined || known.copies === 0) return
    known.copies -= 1
    if (known.copies > 0) return
    this.#changed(known, false)
    if (known instanceof PartialBlock) this.#forget(known)
    else this.#byHash.delete(hash)
  }

  clear(): void {
    this.#byHash.clear()
    this.#sink.clear()
  }

  /** Updates all pool blocks that contain the block and whose other parts are present. */
  #changed(known: EngineBlock, isPresent: boolean): void {
    if (known instanceof PartialBlock) {
      for (let part = known.before; part !== null; part = part.before) if (part.copies === 0) return
      this.#notifySink(known, isPresent)
    } else if (isPresent) this.#sink.hold(known.lo, known.hi)
    else this.#sink.drop(known.lo, known.hi)
  }

  #notifySink(part: PartialBlock, isPresent: boolean): void {
    if (part.open === 0) {
      if (isPresent) this.#sink.hold(part.lo, part.hi)
      else this.#sink.drop(part.lo, part.hi)
    }
    for (let after = part.first; after !== null; after = after.next)
      if (after.copies > 0) this.#notifySink(after, isPresent)
  }

  /** Deletes removed blocks without successors. */
  #forget(last: PartialBlock): void {
    for (
      let part: PartialBlock | null = last;
      part !== null && part.copies === 0 && part.first === null;
      part = part.before
    ) {
      part.leave()
      this.#byHash.delete(part.hash)
    }
  }
}
