import type { Scaler } from './autoscaled-replay.ts'

/** Replicas by window of time. */
export interface ReplicaPlan {
  readonly windowMs: number
  readonly replicas: readonly number[]
}

/** Scales by a plan that is known before: replicas are ordered early enough to serve from the start of their window. */
export function plannedScaler({ windowMs, replicas }: ReplicaPlan, startS: number): Scaler {
  return (fleet, _, at) => {
    for (let window = 1; window < replicas.length; window += 1) {
      const count = replicas[window]!
      const before = replicas[window - 1]!
      if (count === before) continue
      const startsAt = window * windowMs
      at(count > before ? Math.max(0, startsAt - startS * 1000) : startsAt, (now) => fleet.scaleTo(count, now))
    }
  }
}
