import type { KvFeed, KvFeedState } from '../kv-events/feed.ts'
import type { PrefixIndex } from './prefix-index.ts'

/** A prompt that was computed and is in no event yet is believed cached for so long: events are on their way. */
const LINGER_MS = 1_000
/** A picture this much older than its last step says too little about a cache. */
const FORGOTTEN_MS = 300_000

/** How far one engine's feed of KV events has come. */
export class EventFeed {
  #epoch = -1
  #seq = 0
  #complete = false
  #validUntil = Number.NEGATIVE_INFINITY
  /** The newest thing believed when the last sweep was made, and when that was. */
  #sweptStamp = 0
  #sweptAt = 0
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
  take(feed: KvFeed, index: PrefixIndex, { engine, now }: { readonly engine: number; readonly now: number }): KvFeedState {
    const isOurs = feed.epoch === this.#epoch
    if (feed.epoch < this.#epoch && now < this.#validUntil) return 'stale'
    if (isOurs && feed.seq <= this.#seq) return 'ok'
    if (!feed.reset && !(isOurs && feed.seq === this.#seq + 1)) return 'resync'
    if (feed.reset) {
      index.exact.clear(engine)
      this.resyncs += 1
    }
    const fits = index.tell(engine, feed.stored, feed.removed)
    this.#epoch = feed.epoch
    this.#seq = feed.seq
    this.#complete = feed.complete && fits
    this.#validUntil = now + feed.validMs
    this.changes += (feed.stored.length + feed.removed.length) >> 1
    this.lagMs = feed.lagMs
    if (this.#complete && now - this.#sweptAt >= LINGER_MS) {
      index.sweep(engine, this.#sweptStamp)
      this.#sweptStamp = index.stamp
      this.#sweptAt = now
    }
    return 'ok'
  }

  /** Called now and then: an old picture of a silent feed goes. */
  fade(index: PrefixIndex, { engine, now }: { readonly engine: number; readonly now: number }): void {
    if (now - this.#validUntil > FORGOTTEN_MS) index.exact.clear(engine)
  }
}
