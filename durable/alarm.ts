/** An alarm this late is not coming any more. */
const LOST_MS = 10_000

/** An object's one alarm. The platform has lost alarms: without one nothing would lapse or be written for as long as the object lives. */
export class Alarm {
  readonly #storage: Pick<DurableObjectStorage, 'setAlarm'>
  readonly #now: () => number
  /** ms since the epoch; null: not set. */
  #at: number | null = null

  constructor(storage: Pick<DurableObjectStorage, 'setAlarm'>, now: () => number) {
    this.#storage = storage
    this.#now = now
  }

  rang(): void {
    this.#at = null
  }

  /** It rings at `at`, or before; one that should have rung long ago, now. */
  by(at: number): void {
    if (this.#isLost()) this.#set(this.#now())
    else if (this.#at === null || this.#at > at) this.#set(at)
  }

  /** For who asks and changes nothing. */
  setIfLost(): void {
    if (this.#isLost()) this.#set(this.#now())
  }

  #set(at: number): void {
    this.#at = at
    // Unconfirmed: otherwise every answer that first sets an alarm would wait for the disk.
    void this.#storage.setAlarm(at, { allowUnconfirmed: true })
  }

  #isLost(): boolean {
    return this.#at !== null && this.#now() - this.#at > LOST_MS
  }
}
