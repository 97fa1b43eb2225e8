/** Event for the gateway's log, since a pool has none. */
export interface PoolEvent {
  /**
   * `panic_mode`: a request was placed although circuits exclude its engine. `ejection_withheld`: a circuit stayed
   * closed because of a limit of ejection.
   */
  readonly event: 'panic_mode' | 'ejection_withheld'
  readonly engine: string
  /** Limit of `ejection_withheld`: `max_ejected_share`, or `last_engine` (failures of one client only). */
  readonly limit?: 'max_ejected_share' | 'last_engine'
}

/** Minimum interval of equal events in the log, milliseconds. The metrics count all. */
const REPEAT_MS = 60_000
/** Maximum number of pending events. */
const KEPT = 16

/** Events since the last placement, whose response carries them to the gateway's log. */
export class PoolEvents {
  #waiting: PoolEvent[] = []
  readonly #raisedAt = new Map<string, number>()

  raise(event: PoolEvent, now: number): void {
    const name = event.event === 'panic_mode' ? event.event : `${event.event} ${event.engine}`
    if (now - (this.#raisedAt.get(name) ?? -Infinity) < REPEAT_MS || this.#waiting.length >= KEPT) return
    this.#raisedAt.set(name, now)
    this.#waiting.push(event)
  }

  /** Returns and clears the events. */
  take(): readonly PoolEvent[] {
    const taken = this.#waiting
    if (taken.length > 0) this.#waiting = []
    return taken
  }
}
