import { BlockTranslator, type PoolBlocks } from './block-translator.ts'
import { type Delta, type DeltaLimits, DeltaLog } from './delta-log.ts'
import { type EventBatch, readEventBatch, type Framed } from './event-batch.ts'
import { MsgpackError } from './msgpack.ts'

export interface StreamCounts {
  /** Number of batches applied, and of their events. */
  batches: number
  events: number
  /** Number of events of unknown kinds. */
  unknownEvents: number
  /** Number of missing batches, by sequence numbers. */
  gaps: number
  /** Number of engine starts observed. */
  restarts: number
  /** Number of resynchronisations: missing batches without replay, or unreadable batches. */
  losses: number
}

export interface StreamOptions {
  readonly pool: PoolBlocks
  readonly limits: DeltaLimits
  /** Whether replays are possible. */
  readonly replays: boolean
}

const NONE = -1

/**
 * Event stream of one engine: orders batches, detects gaps and restarts, and maintains the cache state. Pure: the host
 * passes in messages and requests replays when told to by the results.
 */
export class EventStream {
  readonly counts: StreamCounts = { batches: 0, events: 0, unknownEvents: 0, gaps: 0, restarts: 0, losses: 0 }
  readonly log: DeltaLog
  readonly #translator: BlockTranslator
  readonly #replays: boolean
  /** Number and time of the last batch; the time identifies repeats of the same engine run. */
  #seq = NONE
  #atS = Number.NEGATIVE_INFINITY
  /** Whether the full cache state is known. */
  #complete = false
  #doubted = false
  /** Batch that may be offered again after a replay. */
  #gapBefore = NONE
  /** No replay of the past was possible so far; the engine may still have it. */
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

  /** Configures the block sizes. false: the pool's `block_tokens` is no multiple of the engine's block size. */
  get fits(): boolean {
    return this.#translator.fits
  }

  get unnamedBlocks(): number {
    return this.#translator.unnamed
  }

  /**
   * Start of the next replay: the last batch again, which identifies the engine run, or 0 if none was requested yet.
   */
  get replayFrom(): number {
    return this.#pastUnasked ? 0 : Math.max(0, this.#seq)
  }

  /** Returns the next delta for the gateway. */
  delta(now: number): Delta {
    return this.log.next(this.isComplete, now)
  }

  /** Records a lost connection: the engine may have restarted, for any next sequence number. */
  doubt(): void {
    this.#doubted = true
  }

  /** Applies a published batch. `replay`: request one from `replayFrom`, then offer this batch again. */
  published(framed: Framed): 'taken' | 'replay' {
    const batch = this.#read(framed)
    if (batch === null) return 'taken'
    // Older than the last batch: of an earlier engine run, delayed in a socket, unless a clock was set back.
    const isLate = this.#replays && batch.atS < this.#atS
    if (framed.seq === this.#seq + 1 && !isLate && !(this.#doubted && this.#seq !== NONE)) {
      // The first batch of an engine run: nothing came before it.
      if (framed.seq === 0) this.#complete = true
      this.#take(framed.seq, batch)
      return 'taken'
    }
    // Older than the known batches: a repeat, unless a clock was set back between two runs.
    if (framed.seq <= this.#seq && batch.atS <= this.#atS && !(this.#doubted && this.#replays)) return 'taken'
    if (framed.seq > this.#seq + 1 && this.#seq !== NONE && framed.seq !== this.#gapBefore) this.counts.gaps += 1
    this.#gapBefore = framed.seq
    if (this.#replays) return 'replay'
    this.#startAt(framed.seq, batch)
    return 'taken'
  }

  /**
   * Applies a complete replay from `from`. `again`: the engine restarted or no longer has the batches: request from 0,
   * which `replayFrom` returns now.
   */
  replayed(answer: readonly Framed[], from: number): 'done' | 'again' {
    if (this.#pastUnasked) this.#forget()
    if (this.#seq !== NONE) {
      const echo = answer[0]
      if (echo === undefined || echo.seq !== this.#seq || timeOf(echo) !== this.#atS) {
        // A later batch is first: same run, but the missing ones are no longer available.
        if (echo === undefined || echo.seq <= this.#seq) this.counts.restarts += 1
        this.#forget()
        this.#doubted = true
        if (from > 0) return 'again'
      }
    }
    // An engine run without batches is not identified: the next batch 0 may be an old one from a socket.
    if (answer.length > 0) this.#doubted = false
    if (this.#seq === NONE) {
      // No batch yet, or its first one is included: the state is complete.
      this.#complete = answer.length === 0 || answer[0]!.seq === 0
      if (!this.#complete) this.counts.losses += 1
    }
    for (const framed of answer) this.#follow(framed)
    return 'done'
  }

  /** Records a failed replay: the missing batches are lost. */
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

  /** Starts the state with this batch. It is complete only for the first batch of a run. */
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
      // Unknown earlier blocks are gone, too.
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

  /** Decodes a batch; null: unreadable, so its changes are unknown. */
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

/** Counts an unreadable batch. */
function timeOf(framed: Framed): number {
  try {
    return readEventBatch(framed.payload).atS
  } catch {
    return Number.NEGATIVE_INFINITY
  }
}
