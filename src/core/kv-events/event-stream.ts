import { BlockTranslator, type PoolBlocks } from './block-translator.ts'
import { type Delta, type DeltaLimits, DeltaLog } from './delta-log.ts'
import { type EventBatch, readEventBatch } from './event-batch.ts'
import type { EventFrame } from './event-frames.ts'
import { MsgpackError } from './msgpack.ts'

interface StreamCounts {
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

interface StreamOptions {
  readonly pool: PoolBlocks
  readonly limits: DeltaLimits
  /** Whether replays are possible. */
  readonly replays: boolean
  /** Data-parallel rank whose batches are applied. Absent: any. */
  readonly rank?: number | undefined
}

const NONE = -1

/**
 * Event stream of one engine: orders batches, detects gaps and restarts, and maintains the cache state. Pure: the host
 * passes in messages and requests replays when the results ask for it.
 */
export class EventStream {
  readonly counts: StreamCounts = { batches: 0, events: 0, unknownEvents: 0, gaps: 0, restarts: 0, losses: 0 }
  readonly log: DeltaLog
  readonly #translator: BlockTranslator
  readonly #replays: boolean
  readonly #rank: number | undefined
  #otherRank: number | null = null
  /** Number and time of the last batch; the time identifies repeats of the same engine run. */
  #seq = NONE
  #atS = Number.NEGATIVE_INFINITY
  /** Whether the full cache state is known. */
  #complete = false
  #mayHaveRestarted = false
  /** Batch that may be offered again after a replay. */
  #gapBefore = NONE
  /** No replay of the past was possible so far; the engine may still have it. */
  #needsFullReplay = false

  constructor({ pool, limits, replays, rank }: StreamOptions) {
    this.log = new DeltaLog(limits)
    this.#translator = new BlockTranslator(pool, this.log)
    this.#replays = replays
    this.#rank = rank
  }

  get isComplete(): boolean {
    return this.#complete && this.#translator.fits && this.#otherRank === null
  }

  /** Rank of the last batch that was rejected, because it is another one's. null: none was. */
  get otherRank(): number | null {
    return this.#otherRank
  }

  get lastSeq(): number {
    return this.#seq
  }

  get engineBlockTokens(): number | null {
    return this.#translator.engineBlockTokens
  }

  /** Whether the pool's block size is a multiple of the engine's. */
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
    return this.#needsFullReplay ? 0 : Math.max(0, this.#seq)
  }

  /** Returns the next delta for the gateway. */
  delta(now: number): Delta {
    return this.log.next(this.isComplete, now)
  }

  /** Records a lost connection: the engine may have restarted, for any next sequence number. */
  connectionLost(): void {
    this.#mayHaveRestarted = true
  }

  /** Applies a published batch. `replay`: request one from `replayFrom`, then offer this batch again. */
  published(frame: EventFrame): 'taken' | 'replay' {
    const batch = this.#read(frame)
    if (batch === null) return 'taken'
    // Older than the last batch: of an earlier engine run, delayed in a socket, unless a clock was set back.
    const isLate = this.#replays && batch.atS < this.#atS
    if (frame.seq === this.#seq + 1 && !isLate && !(this.#mayHaveRestarted && this.#seq !== NONE)) {
      // The first batch of an engine run: nothing came before it.
      if (frame.seq === 0) this.#complete = true
      this.#take(frame.seq, batch)
      return 'taken'
    }
    // Older than the known batches: a repeat, unless a clock was set back between two runs.
    if (frame.seq <= this.#seq && batch.atS <= this.#atS && !(this.#mayHaveRestarted && this.#replays)) return 'taken'
    if (frame.seq > this.#seq + 1 && this.#seq !== NONE && frame.seq !== this.#gapBefore) this.counts.gaps += 1
    this.#gapBefore = frame.seq
    if (this.#replays) return 'replay'
    this.#startAt(frame.seq, batch)
    return 'taken'
  }

  /**
   * Applies a complete replay from `from`. `again`: the engine restarted or no longer has the batches: request from 0,
   * which `replayFrom` returns now.
   */
  replayed(batches: readonly EventFrame[], from: number): 'done' | 'again' {
    if (this.#needsFullReplay) this.#forget()
    if (this.#seq !== NONE) {
      const repeated = batches[0]
      if (repeated === undefined || repeated.seq !== this.#seq || timeOf(repeated) !== this.#atS) {
        // A later batch is first: same run, but the missing ones are no longer available.
        if (repeated === undefined || repeated.seq <= this.#seq) this.counts.restarts += 1
        this.#forget()
        this.#mayHaveRestarted = true
        if (from > 0) return 'again'
      }
    }
    // An engine run without batches is not identified: the next batch 0 may be an old one from a socket.
    if (batches.length > 0) this.#mayHaveRestarted = false
    if (this.#seq === NONE) {
      // No batch yet, or its first one is included: the state is complete.
      this.#complete = batches.length === 0 || batches[0]!.seq === 0
      if (!this.#complete) this.counts.losses += 1
    }
    for (const frame of batches) this.#follow(frame)
    return 'done'
  }

  /** Records a failed replay: the missing batches are lost. */
  replayFailed(frame: EventFrame): void {
    const batch = this.#read(frame)
    if (batch !== null) this.#startAt(frame.seq, batch)
  }

  #follow(frame: EventFrame): void {
    if (frame.seq <= this.#seq) return
    const batch = this.#read(frame)
    if (batch === null) return
    if (frame.seq !== this.#seq + 1 && this.#seq !== NONE) this.#startAt(frame.seq, batch)
    else this.#take(frame.seq, batch)
  }

  /** Starts the state with this batch. It is complete only for the first batch of a run. */
  #startAt(seq: number, batch: EventBatch): void {
    this.#mayHaveRestarted = false
    if (seq <= this.#seq) this.counts.restarts += 1
    this.#forget()
    this.#complete = seq === 0
    this.#needsFullReplay = this.#replays && !this.#complete
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
      if (event.kind === 'cleared') this.#markComplete()
    }
    if (batch.events.length > 0) this.log.changedAt(batch.atS * 1000)
  }

  #markComplete(): void {
    this.#complete = true
    this.#needsFullReplay = false
  }

  #forget(): void {
    this.#seq = NONE
    this.#atS = Number.NEGATIVE_INFINITY
    this.#complete = false
    this.#needsFullReplay = false
    this.#translator.restart()
  }

  /** Decodes a batch; null: of another rank, or unreadable, so that its changes are unknown. */
  #read(frame: EventFrame): EventBatch | null {
    try {
      const batch = readEventBatch(frame.payload)
      const isOther = this.#rank !== undefined && batch.rank !== null && batch.rank !== this.#rank
      this.#otherRank = isOther ? batch.rank : null
      return isOther ? null : batch
    } catch (error) {
      if (!(error instanceof MsgpackError)) throw error
      this.counts.losses += 1
      this.#translator.clear()
      this.#complete = false
      this.#seq = frame.seq
      this.#atS = Number.NEGATIVE_INFINITY
      return null
    }
  }
}

/** Time of a batch; -Infinity: unreadable. */
function timeOf(frame: EventFrame): number {
  try {
    return readEventBatch(frame.payload).atS
  } catch {
    return Number.NEGATIVE_INFINITY
  }
}
