import type { Booking } from './bookings.ts'
import type { Outcome } from '../contract/contract.ts'

/**
 * What the end of a booking says about one of its engines. A client that leaves and an engine that refuses (4xx) or
 * is busy are no failures; an answer of any kind shows that the engine lives. Of several engines only the one that had the
 * last word is judged, unless all went well: the others may never have been asked.
 */
export function circuitSignal(
  engine: string,
  { placement, firstTokenSeen }: Pick<Booking, 'placement' | 'firstTokenSeen'>,
  { failure, failedEngine, result, endUnseen }: Outcome,
): Verdict {
  const spoke = placement.kind === 'whole' || failedEngine === engine
  // Else the streams nobody read would hide the cuts of those that are read.
  if (result === 'complete' && endUnseen === true && (placement.kind === 'whole' || placement.decode === engine))
    return 'begun'
  if (failure === null) return result === 'complete' || (result === 'engine_refused' && spoke) ? 'success' : 'unclear'
  if (!spoke) return 'unclear'
  if (failure === 'busy') return 'success'
  if (failure === 'first_byte_timeout' || failure === 'connect_timeout') return 'hung'
  return firstTokenSeen ? 'cut' : 'failure'
}

/**
 * The same of a gateway with engines of its own: what becomes of a request there is theirs. It is ill when nothing comes of
 * it at all, several times in a row; one request that waits too long may wait for one of many engines.
 */
export function verdictOnGateway(
  engine: string,
  booking: Pick<Booking, 'placement' | 'firstTokenSeen'>,
  outcome: Outcome,
): Verdict {
  const verdict = circuitSignal(engine, booking, outcome)
  if (verdict === 'cut' || verdict === 'begun' || (verdict === 'failure' && outcome.failure === 'status_5xx'))
    return 'success'
  return verdict === 'hung' ? 'failure' : verdict
}

/**
 * One engine's circuit as a union of what can be true: an open one has an end, a closed one cannot; a trial names the
 * one booking that is allowed through. `by`: the bookings whose failures made it so, in a row where it is closed; none
 * where a time limit opened it. `cuts`: streams cut since one last came to its end; absent: none. Pure values: they
 * survive being put down (see the snapshot).
 */
export type Circuit = { readonly by: readonly string[]; readonly cuts?: number } &
  /** `openings`: it was open for cuts, and no stream has come to its end since. */
  (
    | { readonly state: 'closed'; readonly openings?: number }
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
 * What an attempt taught about the engine. `begun`: its first token came, which says nothing of how it will end. `cut`:
 * it broke off after that. `unclear`: the client left before the engine said anything. `hung`: a time
 * limit ran out; that opens at once, since each further trial would cost a client the whole limit, and an engine
 * whose bookings were given up looks idle.
 */
export type Verdict = 'success' | 'begun' | 'failure' | 'cut' | 'hung' | 'unclear'

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
  if (circuit.state !== 'open') return circuit
  const { untilMs: _, ...kept } = circuit
  return { ...kept, state: 'probing', trial: key }
}

interface Attempt {
  readonly key: string
  readonly now: number
  readonly settings: CircuitSettings
}

/** A booking taught something. While a trial runs only the trial counts; while open, nobody does: they are late news. */
export function judged(circuit: Circuit, verdict: Verdict, attempt: Attempt): Circuit {
  if (circuit.state === 'open' || (circuit.state === 'probing' && circuit.trial !== attempt.key)) return circuit
  switch (verdict) {
    case 'success':
      return closed
    case 'begun':
      return begun(circuit, attempt.settings)
    case 'unclear':
      return circuit.state === 'probing'
        ? { ...keptOf(circuit), state: 'open', untilMs: attempt.now, openings: circuit.openings }
        : circuit
    case 'failure':
    case 'cut':
    case 'hung':
      return failed(circuit, verdict, attempt)
  }
}

const keptOf = ({ by, cuts }: Circuit): Pick<Circuit, 'by' | 'cuts'> => (cuts === undefined ? { by } : { by, cuts })

/** It can begin again. Whether it can end shows only at the end: after cuts the next one opens it anew. */
function begun(circuit: Circuit, { failures }: CircuitSettings): Circuit {
  const { cuts, openings } = circuit
  if (cuts === undefined) return closed
  return {
    state: 'closed',
    by: [],
    cuts: Math.min(cuts, failures - 1),
    ...(openings === undefined ? {} : { openings }),
  }
}

function failed(circuit: Circuit, verdict: 'failure' | 'cut' | 'hung', { key, now, settings }: Attempt): Circuit {
  const isTrial = circuit.state === 'probing'
  // What hung opens by itself: no other failure is to be excused for it.
  const by = verdict === 'hung' ? [] : verdict === 'cut' ? circuit.by : isTrial ? [key] : [...circuit.by, key]
  const cuts = (circuit.cuts ?? 0) + (verdict === 'cut' ? 1 : 0)
  const kept = cuts > 0 ? { by, cuts } : { by }
  const { openings = 0 } = circuit
  if (!isTrial && verdict !== 'hung' && by.length + cuts < settings.failures)
    return { ...kept, state: 'closed', ...(openings > 0 ? { openings } : {}) }
  return {
    ...kept,
    state: 'open',
    untilMs: now + settings.openMs * 2 ** Math.min(openings, MAX_DOUBLINGS),
    openings: openings + 1,
  }
}

/**
 * The booking's failure was its request's: all is as if it had never been, but for the time that has passed.
 * @param isDoubtful it may have been: an engine that was open before stays as it is
 */
export function excused(circuit: Circuit, key: string, now: number, isDoubtful = false): Circuit {
  if (!circuit.by.includes(key) || (isDoubtful && circuit.state !== 'closed' && circuit.openings > 1)) return circuit
  const kept = { ...keptOf(circuit), by: circuit.by.filter((one) => one !== key) }
  if (circuit.state === 'closed') return { ...circuit, ...kept }
  if (circuit.openings === 1) return { ...kept, state: 'closed' }
  const before = { ...kept, openings: circuit.openings - 1 }
  return circuit.state === 'open' ? { ...circuit, ...before, untilMs: now } : { ...circuit, ...before }
}

/** The engine came back from the dead (a healthy probe after an unhealthy one): no need to wait for the trial. */
export function revived(circuit: Circuit, now: number): Circuit {
  return circuit.state === 'open' ? { ...circuit, untilMs: Math.min(circuit.untilMs, now) } : circuit
}
