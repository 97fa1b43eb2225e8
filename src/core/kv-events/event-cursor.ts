import type { KvEventDelta, KvEventDeltaState } from './delta.ts'
import type { PrefixIndex } from '../prefix-index/prefix-index.ts'

/** A prompt that was computed and is in no event is believed cached for so long: events are on their way. */
const LINGER_MS = 1_000
/** Prompts waited for; should there be more, the oldest is believed no longer. */
const MAX_UNCONFIRMED = 1_024
/** A picture this much older than its last step says too little about a cache. */
const FORGOTTEN_MS = 300_000

/** A request that has ended and of whose prompt no event was seen yet. */
interface UnconfirmedPrompt {
  /** Its last block. */
  readonly lo: number
  readonly hi: number
  /** When it was let go, as the index counts. */
  readonly stamp: number
  /** How long events are waited for, from the first step since; null: there was none. 0: they have told of it. */
  waitUntil: number | null
}

/** How far one engine's feed of KV events has come. */
export class KvEventCursor {
  #epoch = -1
  #seq = 0
  #complete = false
  /** Was there no room for something since the picture began? */
  #isShort = false
  /** `clears` of the index when the picture began: another number means that it is gone. */
  #clears = 0
  #validUntil = Number.NEGATIVE_INFINITY
  /** In the order in which they ended. */
  #unconfirmed: UnconfirmedPrompt[] = []
  /** Blocks stored and removed. */
  changes = 0
  /** Times the picture began anew. */
  resyncs = 0
  lagMs = 0

  /** All the engine holds is in the index, and nothing it does not: nothing else is to be believed of it. */
  isExact(now: number): boolean {
    return this.#complete && now < this.#validUntil
  }

  /** null: never fed. */
  stateAt(now: number): 'exact' | 'partial' | 'silent' | null {
    if (this.#epoch < 0) return null
    return this.isExact(now) ? 'exact' : now < this.#validUntil ? 'partial' : 'silent'
  }

  /** Applies a step of the feed to the engine's part of the index. */
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
    // Also before: what was told already may be gone with this step, and would be waited for.
    if (this.#complete) this.#listen(index, { engine, now })
    if (!index.tell(engine, feed.stored, feed.removed)) this.#isShort = true
    const isNew = feed.reset || !this.#complete
    this.#epoch = feed.epoch
    this.#seq = feed.seq
    this.#complete = feed.complete && !this.#isShort
    this.#validUntil = now + feed.validMs
    this.changes += (feed.stored.length + feed.removed.length) >> 1
    this.lagMs = feed.lagMs
    if (this.#complete) this.#disbelieve(isNew, index, { engine, now })
    return 'ok'
  }

  #begin(index: PrefixIndex, engine: number): void {
    index.exact.clear(engine)
    this.#clears = index.exact.clears(engine)
    this.#isShort = false
    this.resyncs += 1
  }

  /** A request has ended: its prompt is believed cached until an event says so, and then no more. @param prefilled false: no event will come of it */
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

  /** What ended before the first request of which nothing was heard yet is the events' business alone. */
  #disbelieve(
    all: boolean,
    index: PrefixIndex,
    { engine, now }: { readonly engine: number; readonly now: number },
  ): void {
    this.#listen(index, { engine, now })
    const waiting = all ? -1 : this.#unconfirmed.findIndex(({ waitUntil }) => waitUntil! > now)
    const told = this.#unconfirmed.splice(0, waiting < 0 ? Infinity : waiting)
    const stamp = all ? index.stamp : told.at(-1)?.stamp
    if (stamp !== undefined) index.sweep(engine, stamp)
  }

  /** Called now and then: an old picture of a silent feed goes. */
  fade(index: PrefixIndex, { engine, now }: { readonly engine: number; readonly now: number }): void {
    if (now - this.#validUntil > FORGOTTEN_MS) index.exact.clear(engine)
  }
}
