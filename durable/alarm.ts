/** Lateness after which an alarm counts as lost, milliseconds. */
const LOST_MS = 10_000

/** The single alarm of an object. The platform has lost alarms; without one, nothing would expire or be stored. */
export class Alarm {
  readonly #storage: Pick<DurableObjectStorage, 'setAlarm'>
  readonly #now: () => number
  /** Time of the alarm, milliseconds since the epoch; null: not set. */
  #at: number | null = null

  constructor(storage: Pick<DurableObjectStorage, 'setAlarm'>, now: () => number) {
    this.#storage = storage
    this.#now = now
  }

  fired(): void {
    this.#at = null
  }

  /** Sets the alarm for `at` or earlier, and sets a lost one again. */
  by(at: number): void {
    if (this.#isLost()) this.#set(this.#now())
    else if (this.#at === null || this.#at > at) this.#set(at)
  }

  /** Checks the alarm without changing its time. */
  restoreIfLost(): void {
    if (this.#isLost()) this.#set(this.#now())
  }

  #set(at: number): void {
    this.#at = at
    // Unconfirmed write: otherwise every response that sets an alarm would wait for storage.
    void this.#storage.setAlarm(at, { allowUnconfirmed: true })
  }

  #isLost(): boolean {
    return this.#at !== null && this.#now() - this.#at > LOST_MS
  }
}
