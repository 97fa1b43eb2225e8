import type { PrefixIndex } from '../prefix-index/prefix-index.ts'
import type { KvEventDelta, KvEventDeltaState } from './event-delta.ts'

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
  #isIndexFull = false
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
  apply(
    delta: KvEventDelta,
    index: PrefixIndex,
    { engine, now }: { readonly engine: number; readonly now: number },
  ): KvEventDeltaState {
    const isSameEpoch = delta.epoch === this.#epoch
    if (delta.epoch < this.#epoch && now < this.#validUntil) return 'stale'
    if (isSameEpoch && delta.seq <= this.#seq) return 'ok'
    const isNextStep = isSameEpoch && delta.seq === this.#seq + 1 && index.exact.clears(engine) === this.#clears
    if (!delta.reset && !isNextStep) return 'resync'
    if (delta.reset) this.#begin(index, engine)
    // Also before: this step may remove what earlier ones reported.
    if (this.#complete) this.#confirm(index, { engine, now })
    if (!index.applyKvEvents(engine, delta.stored, delta.removed)) this.#isIndexFull = true
    const isNew = delta.reset || !this.#complete
    this.#epoch = delta.epoch
    this.#seq = delta.seq
    this.#complete = delta.complete && !this.#isIndexFull
    this.#validUntil = now + delta.validMs
    this.changes += (delta.stored.length + delta.removed.length) >> 1
    this.lagMs = delta.lagMs
    if (this.#complete) this.#discard(isNew, index, { engine, now })
    return 'ok'
  }

  #begin(index: PrefixIndex, engine: number): void {
    index.exact.clear(engine)
    this.#clears = index.exact.clears(engine)
    this.#isIndexFull = false
    this.resyncs += 1
  }

  /**
   * Records the end of a request: its prompt counts as cached until events decide.
   * @param prefilled false: it causes no event
   */
  requestEnded(blocks: Uint32Array, index: PrefixIndex, prefilled: boolean): void {
    if (this.#epoch < 0 || blocks.length === 0) return
    if (prefilled) index.recordCompleted(blocks)
    this.#unconfirmed.push({
      lo: blocks.at(-2)!,
      hi: blocks.at(-1)!,
      stamp: index.stamp,
      waitUntil: prefilled ? null : 0,
    })
    if (this.#unconfirmed.length > MAX_UNCONFIRMED) this.#unconfirmed.shift()
  }

  #confirm(index: PrefixIndex, { engine, now }: { readonly engine: number; readonly now: number }): void {
    for (const one of this.#unconfirmed) {
      if (index.exact.has(engine, one.lo, one.hi)) one.waitUntil = 0
      else one.waitUntil ??= now + LINGER_MS
    }
  }

  /** Drops entries of the index older than the first unconfirmed request: events are authoritative for them. */
  #discard(all: boolean, index: PrefixIndex, { engine, now }: { readonly engine: number; readonly now: number }): void {
    this.#confirm(index, { engine, now })
    const waiting = all ? -1 : this.#unconfirmed.findIndex(({ waitUntil }) => waitUntil! > now)
    const published = this.#unconfirmed.splice(0, waiting < 0 ? Infinity : waiting)
    const stamp = all ? index.stamp : published.at(-1)?.stamp
    if (stamp !== undefined) index.sweep(engine, stamp)
  }

  /** Discards the state of a silent source. Call it regularly. */
  discardSilent(index: PrefixIndex, { engine, now }: { readonly engine: number; readonly now: number }): void {
    if (now - this.#validUntil > FORGOTTEN_MS) index.exact.clear(engine)
  }
}
