/**
 * One engine's circuit as a union of what can be true: an open one has an end, a closed one cannot; a trial names the
 * one booking that is allowed through. `by`: the bookings whose failures made it so, in a row where it is closed; none
 * where a time limit opened it. Pure values: they survive being put down (see the snapshot).
 */
export type Circuit = { readonly by: readonly string[] } & (
  | { readonly state: 'closed' }
  | { readonly state: 'open'; readonly untilMs: number; readonly openings: number }
  | { readonly state: 'probing'; readonly trial: string; readonly openings: number }
)

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

export const closed: Circuit = { state: 'closed', by: [] }

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
  return circuit.state === 'open' ? { state: 'probing', trial: key, openings: circuit.openings, by: circuit.by } : circuit
}

/** A booking taught something. While a trial runs only the trial counts; while open, nobody does: they are late news. */
export function judged(circuit: Circuit, verdict: Verdict, attempt: { readonly key: string; readonly now: number; readonly settings: CircuitSettings }): Circuit {
  const { key, now, settings } = attempt
  const isHung = verdict === 'hung'
  switch (circuit.state) {
    case 'closed': {
      if (verdict === 'success') return closed
      if (verdict === 'unclear') return circuit
      const by = isHung ? [] : [...circuit.by, key]
      return isHung || by.length >= settings.failures ? open(by, now + settings.openMs, 1) : { state: 'closed', by }
    }
    case 'open':
      return circuit
    case 'probing': {
      const { openings } = circuit
      if (circuit.trial !== key) return circuit
      if (verdict === 'success') return closed
      if (verdict === 'unclear') return open(circuit.by, now, openings)
      return open(isHung ? [] : [key], now + settings.openMs * 2 ** Math.min(openings, MAX_DOUBLINGS), openings + 1)
    }
  }
}

const open = (by: Circuit['by'], untilMs: number, openings: number): Circuit => ({ state: 'open', by, untilMs, openings })

/** The booking's failure was its request's: all is as if it had never been, but for the time that has passed. */
export function excused(circuit: Circuit, key: string, now: number): Circuit {
  if (!circuit.by.includes(key)) return circuit
  const by = circuit.by.filter((one) => one !== key)
  if (circuit.state === 'closed' || circuit.openings === 1) return { state: 'closed', by }
  const before = { by, openings: circuit.openings - 1 }
  return circuit.state === 'open' ? { ...circuit, ...before, untilMs: now } : { ...circuit, ...before }
}

/** The engine came back from the dead (a healthy probe after an unhealthy one): no need to wait for the trial. */
export function revived(circuit: Circuit, now: number): Circuit {
  return circuit.state === 'open' ? { ...circuit, untilMs: Math.min(circuit.untilMs, now) } : circuit
}
