import type { BlockSink } from './engine-blocks.ts'
import type { KvEventDelta } from './event-delta.ts'

/** The part of a step that the log provides. */
export type Delta = Pick<KvEventDelta, 'seq' | 'reset' | 'complete' | 'lagMs' | 'stored' | 'removed'>

export interface DeltaLimits {
  /** Blocks in one step. */
  readonly stepBlocks: number
  /** Maximum number of pending changes; beyond it the full state is cheaper. */
  readonly pendingBlocks: number
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
  readonly #pending = new Map<Key, boolean>()
  /** Full state at the time of its request, and the number of blocks sent; null: deltas suffice. */
  #fullState: { readonly keys: readonly Key[]; sent: number } | null = { keys: [], sent: 0 }
  #inTransit: Delta | null = null
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
  get pending(): number {
    return this.#pending.size + (this.#fullState === null ? 0 : this.#fullState.keys.length - this.#fullState.sent)
  }

  /** Whether there is something to send. */
  get isDue(): boolean {
    return this.#inTransit !== null || this.#fullState !== null || this.#pending.size > 0
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
    this.#pending.clear()
    this.#inTransit = null
    this.#fullState = { keys: [...this.#held.keys()], sent: 0 }
  }

  /** The step to send now: the unacknowledged one, or the next. Without changes it is a heartbeat. */
  next(complete: boolean, now: number): Delta {
    this.#inTransit ??= this.#nextDelta(complete, now)
    return this.#inTransit
  }

  /** The step was acknowledged. */
  acknowledged(): void {
    this.#inTransit = null
  }

  #nextDelta(complete: boolean, now: number): Delta {
    this.#seq += 1
    const lagMs = this.#oldestAt === null ? 0 : Math.max(0, now - this.#oldestAt)
    if (this.#fullState !== null) return this.#fullStateDelta(this.#fullState, complete, lagMs)
    const stored: Key[] = []
    const removed: Key[] = []
    for (const [key, isStored] of this.#pending) {
      if (stored.length + removed.length >= this.#limits.stepBlocks) break
      ;(isStored ? stored : removed).push(key)
      this.#pending.delete(key)
    }
    if (this.#pending.size === 0) this.#oldestAt = null
    return { seq: this.#seq, reset: false, complete, lagMs, stored: wordsOf(stored), removed: wordsOf(removed) }
  }

  #fullStateDelta(fullState: { readonly keys: readonly Key[]; sent: number }, complete: boolean, lagMs: number): Delta {
    const from = fullState.sent
    fullState.sent = Math.min(fullState.keys.length, from + this.#limits.stepBlocks)
    const isWhole = fullState.sent === fullState.keys.length
    if (isWhole) this.#fullState = null
    const stored = wordsOf(fullState.keys.slice(from, fullState.sent))
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
    if (this.#pending.get(key) === !isStored) this.#pending.delete(key)
    else this.#pending.set(key, isStored)
    if (this.#pending.size > Math.max(this.#limits.pendingBlocks, this.#held.size)) this.resync()
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
