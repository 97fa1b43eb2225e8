/** Changes of an engine's cache on the way to its pool: the bridge's log of them, and the pool's cursor. */
import type { BlockSink } from './engine-block-set.ts'
import type { PrefixIndex } from '../prefix-index/prefix-index.ts'

/* Messages of a bridge about one engine's cache, and their responses: plain data for RPC. */

/** One step of an engine's feed. Applied whole, once, in the order of `seq`. */
export interface KvEventDelta {
  readonly engine: string
  /** Epoch of the bridge: a later bridge of the same engine has a higher number. */
  readonly epoch: number
  /** Grows by one with every step of an epoch. */
  readonly seq: number
  /** Discards the previous state. */
  readonly reset: boolean
  /** false: the engine may have further blocks, or the rest of the full state follows. */
  readonly complete: boolean
  /** Without another step within this time the feed counts as silent, milliseconds. */
  readonly validMs: number
  /** Size of the blocks that the hashes name. */
  readonly blockTokens: number
  /** Age of the oldest event of this step, milliseconds; 0: none. */
  readonly lagMs: number
  /** Chained hashes, two lanes per block, in any order; no hash is in both lists. */
  readonly stored: Uint32Array
  readonly removed: Uint32Array
}

/**
 * `resync`: steps are missing, send the full state. `stale`: a later bridge feeds this engine. `unknown`: the pool has
 * no such engine. `block_tokens`: the pool has another block size.
 */
export type KvEventDeltaState = 'ok' | 'resync' | 'stale' | 'unknown' | 'block_tokens'

/** The part of a step that the log provides. */
export type Delta = Pick<KvEventDelta, 'seq' | 'reset' | 'complete' | 'lagMs' | 'stored' | 'removed'>

export interface DeltaLimits {
  /** Blocks in one step. */
  readonly stepBlocks: number
  /** Maximum number of pending changes; beyond it the full state is cheaper. */
  readonly waitingBlocks: number
}

/** A block's hash as a string. */
type Key = string

/**
 * Blocks of an engine, and the changes that the gateway does not have yet. Opposite changes cancel out before they are
 * sent, so pending changes are bounded by the blocks now and at the last step. One step is in transit at a time; it is
 * repeated unchanged until it is acknowledged.
 */
export class DeltaLog implements BlockSink {
  readonly #limits: DeltaLimits
  readonly #held = new Map<Key, number>()
  /** true: stored; false: removed. */
  readonly #waiting = new Map<Key, boolean>()
  /** Full state at the time of its request, and the number of blocks sent; null: deltas suffice. */
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

  /** Number of pending changes, including the rest of a full state. */
  get waiting(): number {
    return this.#waiting.size + (this.#picture === null ? 0 : this.#picture.keys.length - this.#picture.sent)
  }

  /** Whether there is something to send. */
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

  /** Records the time of a change; the next step reports the age of the oldest. */
  changedAt(atMs: number): void {
    this.#oldestAt = Math.min(this.#oldestAt ?? Infinity, atMs)
  }

  /** Sends the full state again, because the gateway lost its state. */
  resync(): void {
    this.#waiting.clear()
    this.#onTheWay = null
    this.#picture = { keys: [...this.#held.keys()], sent: 0 }
  }

  /** The step to send now: the unacknowledged one, or the next. Without changes it is a heartbeat. */
  next(complete: boolean, now: number): Delta {
    this.#onTheWay ??= this.#made(complete, now)
    return this.#onTheWay
  }

  /** The step was acknowledged. */
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
    // The opposite change is pending, so the gateway's state is already right.
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

/* The pool's end: follows the deltas of one engine. */

/** How long a completed prompt without an event counts as cached, milliseconds: its events may be on the way. */
const LINGER_MS = 1_000
/** Maximum number of prompts without an event; the oldest is dropped. */
const MAX_UNCONFIRMED = 1_024
/** Age of the last step after which the state is discarded, milliseconds. */
const FORGOTTEN_MS = 300_000

/** Completed request whose prompt has no event yet. */
interface UnconfirmedPrompt {
  /** Its last block. */
  readonly lo: number
  readonly hi: number
  /** Stamp of the index at its end. */
  readonly stamp: number
  /** Until when events are awaited, from the next step on; null: no step yet. 0: an event arrived. */
  waitUntil: number | null
}

/** Cursor of one engine's KV events. */
export class KvEventCursor {
  #epoch = -1
  #seq = 0
  #complete = false
  /** Whether the index was full since the last resynchronisation. */
  #isShort = false
  /** `clears` of the index at the resynchronisation: another number means the state is gone. */
  #clears = 0
  #validUntil = Number.NEGATIVE_INFINITY
  /** In the order in which they ended. */
  #unconfirmed: UnconfirmedPrompt[] = []
  /** Blocks stored and removed. */
  changes = 0
  /** Number of resynchronisations. */
  resyncs = 0
  lagMs = 0

  /** Whether the full cache state is known, so that events are the only source. */
  isExact(now: number): boolean {
    return this.#complete && now < this.#validUntil
  }

  /** Source of the events; null: none yet. */
  stateAt(now: number): 'exact' | 'partial' | 'silent' | null {
    if (this.#epoch < 0) return null
    return this.isExact(now) ? 'exact' : now < this.#validUntil ? 'partial' : 'silent'
  }

  /** Applies a delta to the engine's part of the index. */
  take(
    feed: KvEventDelta,
    index: PrefixIndex,
    { engine, now }: { readonly engine: number; readonly now: number },
  ): KvEventDeltaState {
    const isOurs = feed.epoch === this.#epoch
    if (feed.epoch < this.#epoch && now < this.#validUntil) return 'stale'
    if (isOurs && feed.seq <= this.#seq) return 'ok'
    const goesOn = isOurs && feed.seq === this.#seq + 1 && index.exact.clears(engine) === this.#clears
    if (!feed.reset && !goesOn) return 'resync'
    if (feed.reset) this.#begin(index, engine)
    // Also before: this step may remove what earlier ones reported.
    if (this.#complete) this.#listen(index, { engine, now })
    if (!index.tell(engine, feed.stored, feed.removed)) this.#isShort = true
    const isNew = feed.reset || !this.#complete
    this.#epoch = feed.epoch
    this.#seq = feed.seq
    this.#complete = feed.complete && !this.#isShort
    this.#validUntil = now + feed.validMs
    this.changes += (feed.stored.length + feed.removed.length) >> 1
    this.lagMs = feed.lagMs
    if (this.#complete) this.#discard(isNew, index, { engine, now })
    return 'ok'
  }

  #begin(index: PrefixIndex, engine: number): void {
    index.exact.clear(engine)
    this.#clears = index.exact.clears(engine)
    this.#isShort = false
    this.resyncs += 1
  }

  /**
   * Records the end of a request: its prompt counts as cached until events decide.
   * @param prefilled false: it causes no event
   */
  ended(blocks: Uint32Array, index: PrefixIndex, prefilled: boolean): void {
    if (this.#epoch < 0 || blocks.length === 0) return
    if (prefilled) index.ended(blocks)
    this.#unconfirmed.push({
      lo: blocks.at(-2)!,
      hi: blocks.at(-1)!,
      stamp: index.stamp,
      waitUntil: prefilled ? null : 0,
    })
    if (this.#unconfirmed.length > MAX_UNCONFIRMED) this.#unconfirmed.shift()
  }

  #listen(index: PrefixIndex, { engine, now }: { readonly engine: number; readonly now: number }): void {
    for (const one of this.#unconfirmed) {
      if (index.exact.has(engine, one.lo, one.hi)) one.waitUntil = 0
      else one.waitUntil ??= now + LINGER_MS
    }
  }

  /** Drops entries of the index older than the first unconfirmed request: events are authoritative for them. */
  #discard(all: boolean, index: PrefixIndex, { engine, now }: { readonly engine: number; readonly now: number }): void {
    this.#listen(index, { engine, now })
    const waiting = all ? -1 : this.#unconfirmed.findIndex(({ waitUntil }) => waitUntil! > now)
    const published = this.#unconfirmed.splice(0, waiting < 0 ? Infinity : waiting)
    const stamp = all ? index.stamp : published.at(-1)?.stamp
    if (stamp !== undefined) index.sweep(engine, stamp)
  }

  /** Discards the state of a silent source. Call it regularly. */
  fade(index: PrefixIndex, { engine, now }: { readonly engine: number; readonly now: number }): void {
    if (now - this.#validUntil > FORGOTTEN_MS) index.exact.clear(engine)
  }
}
