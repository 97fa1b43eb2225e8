/** Consecutive observations after which the limit counts as known. */
const OBSERVATIONS = 3

/** A first token is late beyond this multiple of its prediction plus `LATE_MS`. */
const LATE_TIMES = 2

const LATE_MS = 50

/** Weight of the latest response in the usual time from first token to end. */
const LATEST_SHARE = 0.1

/** Time after which the largest number of running sequences is measured again while no limit is known, milliseconds. */
const WINDOW_MS = 300_000

interface LateFirstToken {
  readonly bookedAt: number
  readonly predictedMs: number
  readonly now: number
}

/**
 * Places of an engine: the sequences that it runs at the same time (`max_num_seqs` of vLLM), which engines do not
 * report. Learned from requests that wait although the engine has memory: three times in a row while as many sequences
 * run as were ever seen to run. More running sequences refute it.
 */
export class SequencePlaces {
  /** Booked sequences, and those with a first token. */
  #booked = 0
  #running = 0
  /** Booked sequences whose first token cannot be seen. */
  #silent = 0
  /** Sum of the first-token times of the running sequences, milliseconds. */
  #startedSum = 0
  /** Largest number of running sequences, and that of the present window. */
  #maxRunning = 0
  #maxOfWindow = 0
  #windowSince = 0
  #observations = 0
  /** Last time at which a sequence ended while the largest number ran. */
  #freedAt = -Infinity
  /** Usual time from a sequence's first token to its end, milliseconds; null: none seen. */
  #usualMs: number | null = null

  /** Places of the engine; Infinity: unknown. */
  get limit(): number {
    return this.#observations >= OBSERVATIONS ? this.#maxRunning : Infinity
  }

  booked(sequences: number, streams: boolean): void {
    this.#booked += sequences
    if (!streams) this.#silent += sequences
  }

  started(sequences: number, now: number): void {
    this.#running += sequences
    this.#startedSum += sequences * now
    this.#saw(this.#running, now)
  }

  /** Records the end of a booking. @param startedAt time of its first token; null: none */
  ended(sequences: number, streams: boolean, { startedAt, now }: { startedAt: number | null; now: number }): void {
    this.#booked -= sequences
    if (!streams) this.#silent -= sequences
    if (startedAt === null) return
    if (this.#running >= this.#maxRunning) this.#freedAt = now
    this.#running -= sequences
    this.#startedSum -= sequences * startedAt
    this.#usualMs =
      this.#usualMs === null ? now - startedAt : this.#usualMs + LATEST_SHARE * (now - startedAt - this.#usualMs)
  }

  /**
   * Records a first token, after `started`: evidence if it was late, waited for the end of another sequence while all
   * places were taken, and came as soon after that as predicted.
   */
  firstToken({ bookedAt, predictedMs, now }: LateFirstToken): boolean {
    if (this.#silent > 0 || this.#running < this.#maxRunning || bookedAt >= this.#freedAt) return false
    const dueMs = LATE_TIMES * predictedMs + LATE_MS
    const waited = now - bookedAt > dueMs && now - this.#freedAt <= dueMs
    if (waited) this.#observations += 1
    return waited
  }

  /** Records the engine's report. @param hasMemory whether requests can only wait for a place */
  reported(running: number, waiting: number, { hasMemory, now }: { hasMemory: boolean; now: number }): void {
    this.#saw(running, now)
    if (waiting > 0 && running > 0 && running === this.#maxRunning && hasMemory) this.#observations += 1
  }

  /** Discards the learned limit: the engine restarted. */
  restarted(): void {
    this.#observations = 0
    this.#maxRunning = this.#running
  }

  /** Returns the number of sequences that wait for a place, with `more` further ones. */
  excess(more: number): number {
    return Math.max(0, this.#booked + more - this.limit)
  }

  /**
   * Seconds until a place is free for the last of `more` further sequences. The running ones end evenly spread over
   * twice their mean remaining time.
   */
  waitS(more: number, now: number): number {
    const excess = this.excess(more)
    if (excess === 0 || this.#usualMs === null) return 0
    const usualMs = this.#usualMs
    const meanAgeMs = this.#running === 0 ? 0 : now - this.#startedSum / this.#running
    const remainingMs = Math.max(usualMs / 4, usualMs - meanAgeMs)
    return (excess * 2 * remainingMs) / (this.limit + 1) / 1000
  }

  #saw(running: number, now: number): void {
    if (this.#observations < OBSERVATIONS && now - this.#windowSince > WINDOW_MS) {
      this.#maxRunning = this.#maxOfWindow
      this.#maxOfWindow = 0
      this.#windowSince = now
      this.#observations = 0
    }
    this.#maxOfWindow = Math.max(this.#maxOfWindow, running)
    if (running <= this.#maxRunning) return
    this.#maxRunning = running
    this.#observations = 0
  }
}
