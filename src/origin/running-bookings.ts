/** Bookings of this process or isolate that run, so that a change of weights ends the answers that it would mix. */
import type { Origin } from '../ports/origin.ts'

/** Engines whose answers may not go on. */
export interface FencedEngines {
  readonly cluster: string
  readonly pool: string
  /** Ids of servers and of ranks. */
  readonly engines: readonly string[]
}

interface RunningBooking {
  /** Whether the booking has one of these engines, or a rank of one of these servers. */
  isAt(cluster: string, pool: string, engines: readonly string[]): boolean
  /** Ends the call to the engine, because its answer may not go on. */
  fence(): void
}

export class RunningBookings {
  readonly #bookings = new Set<RunningBooking>()

  add(booking: RunningBooking): void {
    this.#bookings.add(booking)
  }

  delete(booking: RunningBooking): void {
    this.#bookings.delete(booking)
  }

  /** Ends the answers of these engines, and returns their number. */
  fence({ cluster, pool, engines }: FencedEngines): number {
    const fenced = [...this.#bookings].filter((booking) => booking.isAt(cluster, pool, engines))
    for (const booking of fenced) booking.fence()
    return fenced.length
  }
}

const byOrigin = new WeakMap<Origin, RunningBookings>()

/** Bookings of requests that this HTTP client sends: they outlive a configuration. */
export function runningBookings(origin: Origin): RunningBookings {
  const known = byOrigin.get(origin) ?? new RunningBookings()
  byOrigin.set(origin, known)
  return known
}
