/**
 * One engine's circuit as a union of what can be true: an open one has an end, a closed one cannot; a trial names the
 * one booking that is allowed through. Pure values: they survive being put down (see the snapshot).
 */
export type Circuit =
  | { readonly state: 'closed'; readonly failures: number }
  | { readonly state: 'open'; readonly untilMs: number; readonly openings: number }
  | { readonly state: 'probing'; readonly trial: string; readonly openings: number }

export interface CircuitSettings {
  /** Consecutive failures that open it. */
  readonly failures: number
  /** How long it stays open the first time; each failed trial doubles it, up to sixteen times. */
  readonly openMs: number
}

/**
 * What an attempt taught about the engine. `unclear`: the client left before the engine said anything. `hung`: a time
 * limit ran out; that opens at once, since each further trial would cost a client the whole limit, and an engine
 * whose bookings were given up looks idle.
 */
export type Verdict = 'success' | 'failure' | 'hung' | 'unclear'

const MAX_DOUBLINGS = 4

export const closed: Circuit = { state: 'closed', failures: 0 }

/** May a booking be made? One at a time is let through once an open circuit's time is over. */
export function admits(circuit: Circuit, now: number): boolean {
  return circuit.state === 'closed' || (circuit.state === 'open' && now >= circuit.untilMs)
}

/** Milliseconds until it may be tried; null when that depends on the trial now running. */
export function waitMs(circuit: Circuit, now: number): number | null {
  if (circuit.state === 'probing') return null
  return circuit.state === 'closed' ? 0 : Math.max(0, circuit.untilMs - now)
}

/** A booking was made: on an open circuit it is the trial. */
export function booked(circuit: Circuit, key: string): Circuit {
  return circuit.state === 'open' ? { state: 'probing', trial: key, openings: circuit.openings } : circuit
}

/** A booking taught something. While a trial runs only the trial counts; while open, nobody does: they are late news. */
export function judged(circuit: Circuit, verdict: Verdict, attempt: { readonly key: string; readonly now: number; readonly settings: CircuitSettings }): Circuit {
  switch (circuit.state) {
    case 'closed':
      if (verdict === 'success') return closed
      if (verdict === 'unclear') return circuit
      return verdict === 'hung' || circuit.failures + 1 >= attempt.settings.failures
        ? { state: 'open', untilMs: attempt.now + attempt.settings.openMs, openings: 1 }
        : { state: 'closed', failures: circuit.failures + 1 }
    case 'open':
      return circuit
    case 'probing':
      if (circuit.trial !== attempt.key) return circuit
      if (verdict === 'success') return closed
      if (verdict === 'unclear') return { state: 'open', untilMs: attempt.now, openings: circuit.openings }
      return {
        state: 'open',
        untilMs: attempt.now + attempt.settings.openMs * 2 ** Math.min(circuit.openings, MAX_DOUBLINGS),
        openings: circuit.openings + 1,
      }
  }
}

/** The engine came back from the dead (a healthy probe after an unhealthy one): no need to wait for the trial. */
export function revived(circuit: Circuit, now: number): Circuit {
  return circuit.state === 'open' ? { ...circuit, untilMs: Math.min(circuit.untilMs, now) } : circuit
}
