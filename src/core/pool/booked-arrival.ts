import type { Arrivals } from '../capacity/arrivals.ts'
import type { RoleWork } from '../capacity/request-mix.ts'
import type { Role } from '../contract/pool-config.ts'
import type { Booking } from './bookings.ts'
import type { LegEntry } from './ledger-entry.ts'

/** Counts a new booking as an arrival, with the work of its legs. Further attempts of a request are none. */
export function countArrival(
  arrivals: Arrivals,
  { admission, legs }: Booking,
  entries: readonly LegEntry[],
  now: number,
): void {
  const { attempt, hedge = false, promptTokens, sequences = 1 } = admission
  if (attempt > 0 || hedge) return
  // Booked again after an eviction, when they had arrived before, or on an engine whose work is unknown.
  const own = entries.filter(({ isResumed }) => !isResumed)
  if (own.length === 0) {
    // What a provider serves because the pool has no room needs room.
    if (legs.some(({ engine }) => engine.spec.isExternal === true)) arrivals.add(1, now)
    return
  }
  const parts = own.map(({ engine, legRole, queued }): readonly [Role, RoleWork] => {
    const prefillS = queued?.seconds ?? 0
    const decodes = legRole !== 'prefill'
    return [
      engine.spec.role,
      {
        prefillS,
        slackS: arrivals.slackS(promptTokens, prefillS),
        promptTokens: decodes ? promptTokens : 0,
        sequences: decodes ? sequences : 0,
      },
    ]
  })
  arrivals.booked(parts, now)
}
