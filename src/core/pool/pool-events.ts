/** Something for the gateway's log: a pool has no log of its own. */
export interface PoolEvent {
  /**
   * `panic_mode`: a request was placed although circuits exclude its engine. `ejection_withheld`: an engine failed often
   * enough for an open circuit, and a limit of ejection kept it closed.
   */
  readonly event: 'panic_mode' | 'ejection_withheld'
  readonly engine: string
  /** The limit: `max_ejected_share`, or `last_engine` (not on one client's account). Only of `ejection_withheld`. */
  readonly limit?: 'max_ejected_share' | 'last_engine'
}

/** The same event again within this time is counted in a metric only. */
const REPEAT_MS = 60_000
/** More is a burst that the metrics show; names of engines are few. */
const KEPT = 16

/** Events since the last placement, which takes them to the gateway that logs them. */
export class PoolEvents {
  #waiting: PoolEvent[] = []
  readonly #raisedAt = new Map<string, number>()

  raise(event: PoolEvent, now: number): void {
    const name = event.event === 'panic_mode' ? event.event : `${event.event} ${event.engine}`
    if (now - (this.#raisedAt.get(name) ?? -Infinity) < REPEAT_MS || this.#waiting.length >= KEPT) return
    this.#raisedAt.set(name, now)
    this.#waiting.push(event)
  }

  /** Empties the list. */
  take(): readonly PoolEvent[] {
    const taken = this.#waiting
    if (taken.length > 0) this.#waiting = []
    return taken
  }
}
