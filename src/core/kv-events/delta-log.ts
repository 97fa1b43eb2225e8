import type { BlockSink } from './engine-block-set.ts'

/** What a bridge tells the gateway of one engine's cache, and is told: plain data that survives RPC. */

/** One step of an engine's feed. Applied whole, once, in the order of `seq`. */
export interface KvEventDelta {
  readonly engine: string
  /** Of the bridge: a later one of the same engine has a higher number. */
  readonly epoch: number
  /** Grows by one with every step of an epoch. */
  readonly seq: number
  /** What was said before is void: the picture begins anew. */
  readonly reset: boolean
  /** false: it may hold more than was said, of which nothing is known; or the rest of the picture is still to come. */
  readonly complete: boolean
  /** Without another step within this time the feed counts as silent, milliseconds. */
  readonly validMs: number
  /** Size of the blocks that the hashes name. */
  readonly blockTokens: number
  /** How long the oldest event of this step was on its way here, milliseconds; 0: there is none. */
  readonly lagMs: number
  /** Chained hashes, two lanes a block, in no order; none is in both. */
  readonly stored: Uint32Array
  readonly removed: Uint32Array
}

/**
 * `resync`: steps are missing; send the whole picture. `stale`: a later bridge feeds this engine. `unknown`: the pool
 * has
 * no such engine. `block_tokens`: the pool's blocks have another size.
 */
export type KvEventDeltaState = 'ok' | 'resync' | 'stale' | 'unknown' | 'block_tokens'

/** The part of a step that the log knows. */
export type Delta = Pick<KvEventDelta, 'seq' | 'reset' | 'complete' | 'lagMs' | 'stored' | 'removed'>

export interface DeltaLimits {
  /** Blocks in one step. */
  readonly stepBlocks: number
  /** Changes kept for a gateway that does not take them; beyond that the whole picture is cheaper. */
  readonly waitingBlocks: number
}

/** A block by its hash, as a text to compare. */
type Key = string

/**
 * What an engine holds, and what of it the gateway has not been told. Changes that undo each other before they are sent
 * are never sent, so what waits is bounded by what the engine holds and held when it was last told. One step is on its
 * way at a time; it is repeated as it is until it is answered.
 */
export class DeltaLog implements BlockSink {
  readonly #limits: DeltaLimits
  readonly #held = new Map<Key, number>()
  /** true: stored; false: removed. */
  readonly #waiting = new Map<Key, boolean>()
  /** The whole picture as it was when it was asked for, and how much of it was sent; null: deltas will do. */
  #picture: { readonly keys: readonly Key[]; sent: number } | null = { keys: [], sent: 0 }
  #onTheWay: Delta | null = null
  #seq = 0
  #oldestAt: number | null = null

  constructor(limits: DeltaLimits) {
    this.#limits = limits
  }

  /** Blocks held. */
  get size(): number {
    return this.#held.size
  }

  /** Changes that wait, the rest of a picture included. */
  get waiting(): number {
    return this.#waiting.size + (this.#picture === null ? 0 : this.#picture.keys.length - this.#picture.sent)
  }

  /** Is there something to send? */
  get isDue(): boolean {
    return this.#onTheWay !== null || this.#picture !== null || this.#waiting.size > 0
  }

  hold(lo: number, hi: number): void {
    const key = keyOf(lo, hi)
    const count = this.#held.get(key) ?? 0
    this.#held.set(key, count + 1)
    if (count === 0) this.#changed(key, true)
  }

  drop(lo: number, hi: number): void {
    const key = keyOf(lo, hi)
    const count = this.#held.get(key)
    if (count === undefined) return
    if (count > 1) {
      this.#held.set(key, count - 1)
      return
    }
    this.#held.delete(key)
    this.#changed(key, false)
  }

  clear(): void {
    this.#held.clear()
    this.resync()
  }

  /** A change came in that was made so long ago; the next step tells of the oldest. */
  changedAt(atMs: number): void {
    this.#oldestAt = Math.min(this.#oldestAt ?? Infinity, atMs)
  }

  /** The gateway lost the thread: the whole picture is sent again. */
  resync(): void {
    this.#waiting.clear()
    this.#onTheWay = null
    this.#picture = { keys: [...this.#held.keys()], sent: 0 }
  }

  /** The step to send now: the one that was not answered, or the next; without changes it is a sign of life. */
  next(complete: boolean, now: number): Delta {
    this.#onTheWay ??= this.#made(complete, now)
    return this.#onTheWay
  }

  /** The step was taken. */
  taken(): void {
    this.#onTheWay = null
  }

  #made(complete: boolean, now: number): Delta {
    this.#seq += 1
    const lagMs = this.#oldestAt === null ? 0 : Math.max(0, now - this.#oldestAt)
    if (this.#picture !== null) return this.#piece(this.#picture, complete, lagMs)
    const stored: Key[] = []
    const removed: Key[] = []
    for (const [key, isStored] of this.#waiting) {
      if (stored.length + removed.length >= this.#limits.stepBlocks) break
      ;(isStored ? stored : removed).push(key)
      this.#waiting.delete(key)
    }
    if (this.#waiting.size === 0) this.#oldestAt = null
    return { seq: this.#seq, reset: false, complete, lagMs, stored: wordsOf(stored), removed: wordsOf(removed) }
  }

  #piece(picture: { readonly keys: readonly Key[]; sent: number }, complete: boolean, lagMs: number): Delta {
    const from = picture.sent
    picture.sent = Math.min(picture.keys.length, from + this.#limits.stepBlocks)
    const isWhole = picture.sent === picture.keys.length
    if (isWhole) this.#picture = null
    const stored = wordsOf(picture.keys.slice(from, picture.sent))
    return {
      seq: this.#seq,
      reset: from === 0,
      complete: complete && isWhole,
      lagMs,
      stored,
      removed: new Uint32Array(0),
    }
  }

  #changed(key: Key, isStored: boolean): void {
    // Opposite to what waits: the gateway is right as it is.
    if (this.#waiting.get(key) === !isStored) this.#waiting.delete(key)
    else this.#waiting.set(key, isStored)
    if (this.#waiting.size > Math.max(this.#limits.waitingBlocks, this.#held.size)) this.resync()
  }
}

function keyOf(lo: number, hi: number): Key {
  return String.fromCharCode(lo >>> 16, lo & 0xffff, hi >>> 16, hi & 0xffff)
}

function wordsOf(keys: readonly Key[]): Uint32Array {
  const words = new Uint32Array(keys.length * 2)
  for (const [index, key] of keys.entries()) {
    words[index * 2] = (key.charCodeAt(0) << 16) | key.charCodeAt(1)
    words[index * 2 + 1] = (key.charCodeAt(2) << 16) | key.charCodeAt(3)
  }
  return words
}
