import { BlockTranslator, type PoolBlocks } from './block-translator.ts'
import { type Delta, type DeltaLimits, DeltaLog } from './delta-log.ts'
import { type EventBatch, readEventBatch, type Framed } from './event-batch.ts'
import { MsgpackError } from './msgpack.ts'

export interface StreamCounts {
  /** Batches taken in, and the events in them. */
  batches: number
  events: number
  /** Events of kinds that came after this was written. */
  unknownEvents: number
  /** Batches that were missing, found out by their numbers. */
  gaps: number
  /** Lives of the engine that began while it was listened to. */
  restarts: number
  /** Times the picture was lost: missing batches that nobody could repeat, or bytes that nobody could read. */
  losses: number
}

export interface StreamOptions {
  readonly pool: PoolBlocks
  readonly limits: DeltaLimits
  /** Can missed batches be asked for? */
  readonly replays: boolean
}

const NONE = -1

/**
 * One engine's event stream: puts batches in order, finds what is missing, tells a new life of the engine from an old
 * one's echo, and keeps the picture of its cache. Pure: a host passes in what the sockets say and asks for replays as
 * told to.
 */
export class EventStream {
  readonly counts: StreamCounts = { batches: 0, events: 0, unknownEvents: 0, gaps: 0, restarts: 0, losses: 0 }
  readonly log: DeltaLog
  readonly #translator: BlockTranslator
  readonly #replays: boolean
  /** Number and time of the last batch taken in; the time proves that a repeat is of the same life. */
  #seq = NONE
  #atS = Number.NEGATIVE_INFINITY
  /** Is all it holds in the picture? */
  #complete = false
  #doubted = false
  /** The batch that may be offered again. */
  #gapBefore = NONE
  /** Nobody could be asked for the past so far: it may still be kept. */
  #pastUnasked = false

  constructor({ pool, limits, replays }: StreamOptions) {
    this.log = new DeltaLog(limits)
    this.#translator = new BlockTranslator(pool, this.log)
    this.#replays = replays
  }

  get isComplete(): boolean {
    return this.#complete && this.#translator.fits
  }

  get lastSeq(): number {
    return this.#seq
  }

  get engineBlockTokens(): number | null {
    return this.#translator.engineBlockTokens
  }

  /** false: the pool's `block_tokens` is no multiple of the engine's block size. */
  get fits(): boolean {
    return this.#translator.fits
  }

  get unnamedBlocks(): number {
    return this.#translator.unnamed
  }

  /**
   * What to ask a replay from: the last batch again, which proves that the engine still lives the same life; everything,
   * where it was not asked for yet.
   */
  get replayFrom(): number {
    return this.#pastUnasked ? 0 : Math.max(0, this.#seq)
  }

  /** The next step for the gateway. */
  delta(now: number): Delta {
    return this.log.next(this.isComplete, now)
  }

  /** The engine was out of reach: it may live another life by now, whatever the next batch's number. */
  doubt(): void {
    this.#doubted = true
  }

  /** A published batch. `replay`: ask for one from `replayFrom`, then offer this batch again. */
  published(framed: Framed): 'taken' | 'replay' {
    const batch = this.#read(framed)
    if (batch === null) return 'taken'
    // Made before the last one: of an earlier life, and waited in a socket, unless a clock was set back in this one.
    const isLate = this.#replays && batch.atS < this.#atS
    if (framed.seq === this.#seq + 1 && !isLate && !(this.#doubted && this.#seq !== NONE)) {
      // The first batch of a life: nothing came before it.
      if (framed.seq === 0) this.#complete = true
      this.#take(framed.seq, batch)
      return 'taken'
    }
    // Older than what is known, and made before it: a repeat, unless a clock was set back between two lives.
    if (framed.seq <= this.#seq && batch.atS <= this.#atS && !(this.#doubted && this.#replays)) return 'taken'
    if (framed.seq > this.#seq + 1 && this.#seq !== NONE && framed.seq !== this.#gapBefore) this.counts.gaps += 1
    this.#gapBefore = framed.seq
    if (this.#replays) return 'replay'
    this.#startAt(framed.seq, batch)
    return 'taken'
  }

  /**
   * The whole answer to a replay that was asked for at `from`. `again`: the engine lives another life, or has forgotten
   * what was missed: ask from 0 (which `replayFrom` says now).
   */
  replayed(answer: readonly Framed[], from: number): 'done' | 'again' {
    if (this.#pastUnasked) this.#forget()
    if (this.#seq !== NONE) {
      const echo = answer[0]
      if (echo === undefined || echo.seq !== this.#seq || timeOf(echo) !== this.#atS) {
        // A later batch first: it lives on, and what was missed is no longer kept.
        if (echo === undefined || echo.seq <= this.#seq) this.counts.restarts += 1
        this.#forget()
        this.#doubted = true
        if (from > 0) return 'again'
      }
    }
    // A life that has published nothing proves nothing: the next batch number 0 may be the old one's, which waited in a socket.
    if (answer.length > 0) this.#doubted = false
    if (this.#seq === NONE) {
      // Nothing was published yet, or its first batch is there: then all it ever stored is known.
      this.#complete = answer.length === 0 || answer[0]!.seq === 0
      if (!this.#complete) this.counts.losses += 1
    }
    for (const framed of answer) this.#follow(framed)
    return 'done'
  }

  /** A replay that could not be had, for a batch that needed it: what lies between is lost. */
  unreplayed(framed: Framed): void {
    const batch = this.#read(framed)
    if (batch !== null) this.#startAt(framed.seq, batch)
  }

  #follow(framed: Framed): void {
    if (framed.seq <= this.#seq) return
    const batch = this.#read(framed)
    if (batch === null) return
    if (framed.seq !== this.#seq + 1 && this.#seq !== NONE) this.#startAt(framed.seq, batch)
    else this.#take(framed.seq, batch)
  }

  /** The picture begins with this batch; only if it is the first of a life nothing came before. */
  #startAt(seq: number, batch: EventBatch): void {
    this.#doubted = false
    if (seq <= this.#seq) this.counts.restarts += 1
    this.#forget()
    this.#complete = seq === 0
    this.#pastUnasked = this.#replays && !this.#complete
    if (!this.#complete) this.counts.losses += 1
    this.#take(seq, batch)
  }

  #take(seq: number, batch: EventBatch): void {
    this.#seq = seq
    this.#atS = batch.atS
    this.counts.batches += 1
    this.counts.events += batch.events.length
    this.counts.unknownEvents += batch.unknown
    for (const event of batch.events) {
      this.#translator.apply(event)
      // Whatever was there before and not known of is gone, too.
      if (event.kind === 'cleared') this.#knowsAll()
    }
    if (batch.events.length > 0) this.log.changedAt(batch.atS * 1000)
  }

  #knowsAll(): void {
    this.#complete = true
    this.#pastUnasked = false
  }

  #forget(): void {
    this.#seq = NONE
    this.#atS = Number.NEGATIVE_INFINITY
    this.#complete = false
    this.#pastUnasked = false
    this.#translator.restart()
  }

  /** null: unreadable, so that nobody knows what it changed. */
  #read(framed: Framed): EventBatch | null {
    try {
      return readEventBatch(framed.payload)
    } catch (error) {
      if (!(error instanceof MsgpackError)) throw error
      this.counts.losses += 1
      this.#translator.clear()
      this.#complete = false
      this.#seq = framed.seq
      this.#atS = Number.NEGATIVE_INFINITY
      return null
    }
  }
}

/** Of a batch nobody can read: what the stream notes for one. */
function timeOf(framed: Framed): number {
  try {
    return readEventBatch(framed.payload).atS
  } catch {
    return Number.NEGATIVE_INFINITY
  }
}
