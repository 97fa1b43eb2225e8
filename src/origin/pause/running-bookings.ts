/** Bookings of this process or isolate that run, so that a change of weights ends the answers that it would mix. */
import type { Origin } from '../../ports/origin.ts'

/** Engines whose answers may not go on. */
export interface FencedEngines {
  readonly cluster: string
  readonly pool: string
  /** Ids of servers and of ranks. */
  readonly engines: readonly string[]
}

interface RunningBooking {
  /** Its index in the list of running bookings, which sets it; -1: it is not there. */
  runningIndex: number
  /** Whether the booking has one of these engines, or a rank of one of these servers. */
  isAt(cluster: string, pool: string, engines: readonly string[]): boolean
  /** Ends the call to the engine, because its answer may not go on. */
  fence(): void
}

/**
 * A list from which a booking is removed by its index. The outgrown tables of a `Set` would keep every booking, with
 * its whole request, until the next full garbage collection (core/churn-map.ts).
 */
export class RunningBookings {
  readonly #bookings: RunningBooking[] = []

  add(booking: RunningBooking): void {
    booking.runningIndex = this.#bookings.length
    this.#bookings.push(booking)
  }

  delete(booking: RunningBooking): void {
    if (booking.runningIndex < 0) return
    const last = this.#bookings.pop()!
    if (last !== booking) {
      this.#bookings[booking.runningIndex] = last
      last.runningIndex = booking.runningIndex
    }
    booking.runningIndex = -1
  }

  /** Ends the answers of these engines, and returns their number. */
  fence({ cluster, pool, engines }: FencedEngines): number {
    const fenced = this.#bookings.filter((booking) => booking.isAt(cluster, pool, engines))
    for (const booking of fenced) booking.fence()
    return fenced.length
  }
}

const byOrigin = new WeakMap<Origin, RunningBookings>()

/** Bookings of requests that this HTTP client sends: they outlive a configuration. */
export function runningBookings(origin: Origin): RunningBookings {
  const known = byOrigin.get(origin)
  if (known !== undefined) return known
  const added = new RunningBookings()
  byOrigin.set(origin, added)
  return added
}
