import type { Booking } from './bookings.ts'
import type { Outcome } from '../contract/contract.ts'

/**
 * What the end of a booking says about one of its engines. A client that leaves and an engine that refuses (4xx) or
 * is busy are no failures; an answer of any kind shows that the engine lives. Of several engines only the one that had the
 * last word is judged, unless all went well: the others may never have been asked.
 * @param isMoving the engine has begun or moved other answers since this request was sent: it does not hang
 */
export function circuitSignal(
  engine: string,
  { placement, firstTokenSeen }: Pick<Booking, 'placement' | 'firstTokenSeen'>,
  { failure, failedEngine, result, endUnseen }: Outcome,
  isMoving = false,
): Verdict {
  const spoke = placement.kind === 'whole' || failedEngine === engine
  // Else the streams nobody read would hide the cuts of those that are read.
  if (result === 'complete' && endUnseen === true && (placement.kind === 'whole' || placement.decode === engine))
    return 'begun'
  if (failure === null) return result === 'complete' || (result === 'engine_refused' && spoke) ? 'success' : 'unclear'
  if (!spoke) return 'unclear'
  if (failure === 'busy') return 'success'
  // The limit bounds the whole answer: how long it is was the client's choice.
  if (failure === 'answer_timeout') return 'unclear'
  if (failure === 'first_byte_timeout') return isMoving ? 'unclear' : 'hung'
  if (failure === 'connect_timeout') return isMoving ? 'failure' : 'hung'
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
  isMoving = false,
): Verdict {
  const verdict = circuitSignal(engine, booking, outcome, isMoving)
  if (verdict === 'cut' || verdict === 'begun' || (verdict === 'failure' && outcome.failure === 'status_5xx'))
    return 'success'
  return verdict === 'hung' ? 'failure' : verdict
}

/**
 * One engine's circuit breaker as a union of its states: an open circuit has an end, a closed one cannot. Plain values:
 * they survive a snapshot.
 */
export type Circuit = Evidence & (ClosedCircuit | OpenCircuit | ProbingCircuit)

interface Evidence {
  /** Booking keys of the failures in a row that opened it, or may yet; empty where a time limit opened it. */
  readonly by: readonly string[]
  /** Streams cut since the last stream that completed; absent: none. */
  readonly cuts?: number
  /** Tenant of all these requests; null: several tenants, or requests without a key. Absent: no failures. */
  readonly client?: string | null
}

interface ClosedCircuit {
  readonly state: 'closed'
  /** Times it opened for cuts since a stream completed. */
  readonly openings?: number
}

interface Opened {
  /** Only requests sent after this moment say how the engine is now. Milliseconds since the epoch. */
  readonly openedAt: number
  /** No trial before this moment, milliseconds since the epoch. */
  readonly untilMs: number
  readonly openings: number
  /** A time limit opened it: a good health check proves nothing, since engines that hang still give it. */
  readonly isHung?: true
}

interface OpenCircuit extends Opened {
  readonly state: 'open'
}

/** Half-open. */
interface ProbingCircuit extends Opened {
  readonly state: 'probing'
  /** Booking keys of the trial requests in flight. */
  readonly trials: readonly string[]
  /** Trial requests admitted at once. */
  readonly limit: number
}

export interface CircuitSettings {
  /** Consecutive failures that open it. */
  readonly failures: number
  /** How long it stays open the first time; each failed trial doubles it, up to sixteen times. */
  readonly openMs: number
}

/**
 * What an attempt taught about the engine. `begun`: its first token came, which says nothing of how it will end. `cut`:
 * it broke off after that. `unclear`: nothing was learned, e.g. the client left early. `hung`: a time limit ran out,
 * which opens at once: each further trial would cost a client the whole limit.
 */
export type Verdict = 'success' | 'begun' | 'failure' | 'cut' | 'hung' | 'unclear'

const MAX_DOUBLINGS = 4
/** Trial requests at once while half-open. More are admitted only once the circuit is closed. */
export const MAX_TRIALS = 8
/** Trial requests at once of an engine that a health check found back: a long prefill leaves room for short ones. */
const TRIALS_AFTER_RECOVERY = 4

export const closed: Circuit = { state: 'closed', by: [] }

/** May a booking be made? */
export function admits(circuit: Circuit, now: number): boolean {
  if (circuit.state === 'closed') return true
  return circuit.state === 'open' ? now >= circuit.untilMs : circuit.trials.length < circuit.limit
}

/** Milliseconds until it may be tried; null when that depends on the trials now running. */
export function waitMs(circuit: Circuit, now: number): number | null {
  if (circuit.state === 'probing') return circuit.trials.length < circuit.limit ? 0 : null
  return circuit.state === 'closed' ? 0 : Math.max(0, circuit.untilMs - now)
}

/** A booking was made: unless the circuit is closed, or has all the trials it may have (panic mode), it is a trial. */
export function booked(circuit: Circuit, key: string): Circuit {
  if (circuit.state === 'open') return { ...circuit, state: 'probing', trials: [key], limit: 1 }
  if (circuit.state === 'closed' || circuit.trials.length >= circuit.limit) return circuit
  return { ...circuit, trials: [...circuit.trials, key] }
}

/** Is the booking a trial? */
const isTrial = (circuit: Circuit, key: string): boolean => circuit.state === 'probing' && circuit.trials.includes(key)

export interface Attempt {
  readonly key: string
  readonly now: number
  readonly settings: CircuitSettings
  /** When the request was sent, milliseconds since the epoch. Absent: not known, taken for old. */
  readonly sentAt?: number
  /** Whose request it is; null: not known. */
  readonly client?: string | null
  /** May a closed circuit open on the account of this client (null: of several)? Absent: it may. */
  readonly mayOpen?: (client: string | null) => boolean
}

/**
 * The circuit after an attempt. Half-open, failures count only of trials. Success counts of every request that was sent
 * after the circuit opened, which panic mode brings about.
 */
export function judged(circuit: Circuit, verdict: Verdict, attempt: Attempt): Circuit {
  if (circuit.state !== 'closed' && !isTrial(circuit, attempt.key)) {
    const isFresh = attempt.sentAt !== undefined && attempt.sentAt > circuit.openedAt
    if (!isFresh || (verdict !== 'success' && verdict !== 'begun')) return circuit
  }
  switch (verdict) {
    case 'success':
      return closed
    case 'begun':
      return begun(circuit, attempt.settings)
    case 'unclear':
      return withoutTrial(circuit, attempt.key)
    case 'failure':
    case 'cut':
    case 'hung':
      return failed(circuit, verdict, attempt)
  }
}

/**
 * A good health check: half-open admits twice as many trials, and closes beyond the maximum unless a time limit had
 * opened it. Response heads of trials do not count: the checks come every second and need no message from the gateways.
 */
export function probedHealthy(circuit: Circuit, settings: CircuitSettings): Circuit {
  if (circuit.state !== 'probing') return circuit
  const limit = 2 * circuit.limit
  if (limit <= MAX_TRIALS) return { ...circuit, limit }
  return circuit.isHung === true ? { ...circuit, limit: MAX_TRIALS } : begun(circuit, settings)
}

const evidenceOf = ({ by, cuts, client }: Circuit): Evidence => ({
  by,
  ...(cuts === undefined ? {} : { cuts }),
  ...(client === undefined ? {} : { client }),
})

const openedOf = ({ openedAt, untilMs, openings, isHung }: Opened): Opened =>
  isHung === true ? { openedAt, untilMs, openings, isHung } : { openedAt, untilMs, openings }

/** It can begin again. Whether it can end shows only at the end: after cuts the next one opens it anew. */
function begun(circuit: Circuit, { failures }: CircuitSettings): Circuit {
  const { cuts, openings, client } = circuit
  if (cuts === undefined) return closed
  return {
    state: 'closed',
    by: [],
    cuts: Math.min(cuts, failures - 1),
    ...(client === undefined ? {} : { client }),
    ...(openings === undefined ? {} : { openings }),
  }
}

/** Without any trial left, it is open again, and due at once. */
function withoutTrial(circuit: Circuit, key: string): Circuit {
  if (circuit.state !== 'probing') return circuit
  const trials = circuit.trials.filter((trial) => trial !== key)
  if (trials.length > 0 || circuit.limit > 1) return { ...circuit, trials }
  return { ...evidenceOf(circuit), ...openedOf(circuit), state: 'open' }
}

function failed(circuit: Circuit, verdict: 'failure' | 'cut' | 'hung', attempt: Attempt): Circuit {
  const { key, now, settings } = attempt
  const isHung = verdict === 'hung'
  const wasProbing = circuit.state === 'probing'
  // A time limit opens by itself: no other failure is to be excused for it.
  const by = isHung ? [] : verdict === 'cut' ? circuit.by : wasProbing ? [key] : [...circuit.by, key]
  const cuts = (circuit.cuts ?? 0) + (verdict === 'cut' ? 1 : 0)
  const client = clientOf(circuit, attempt)
  const evidence: Evidence = cuts > 0 ? { by, cuts, client } : { by, client }
  const { openings = 0 } = circuit
  if (!wasProbing) {
    const before: ClosedCircuit = openings > 0 ? { state: 'closed', openings } : { state: 'closed' }
    if (!isHung && by.length + cuts < settings.failures) return { ...evidence, ...before }
    if (attempt.mayOpen?.(client) === false) return isHung ? circuit : { ...atBrink(evidence, settings), ...before }
  } else if (now < circuit.untilMs) {
    // Panic mode sent it before its time: that costs no longer wait.
    return { ...evidenceOf(circuit), ...openedOf(circuit), state: 'open' }
  }
  return {
    ...evidence,
    ...(isHung ? { isHung } : {}),
    state: 'open',
    openedAt: now,
    untilMs: now + settings.openMs * 2 ** Math.min(openings, MAX_DOUBLINGS),
    openings: openings + 1,
  }
}

/** The one client of all failures so far, this one included; null: there are several, or it has no name. */
function clientOf(circuit: Circuit, { client = null }: Attempt): string | null {
  return circuit.client === undefined || circuit.client === client ? client : null
}

/** As much evidence as a closed circuit can have: the next failure is judged again. */
function atBrink({ by, cuts = 0, client }: Evidence, { failures }: CircuitSettings): Evidence {
  const keptCuts = Math.min(cuts, failures - 1)
  const kept = by.slice(Math.max(0, by.length - (failures - 1 - keptCuts)))
  if (kept.length + keptCuts === 0) return { by: [] }
  const evidence: Evidence = keptCuts > 0 ? { by: kept, cuts: keptCuts } : { by: kept }
  return client === undefined ? evidence : { ...evidence, client }
}

/**
 * The booking's failure was its request's: all is as if it had never been, but for the time that has passed.
 * @param isDoubtful it may have been: an engine that was open before stays as it is
 */
export function excused(circuit: Circuit, key: string, now: number, isDoubtful = false): Circuit {
  if (!circuit.by.includes(key) || (isDoubtful && circuit.state !== 'closed' && circuit.openings > 1)) return circuit
  const by = circuit.by.filter((one) => one !== key)
  const { client: _, ...rest } = evidenceOf(circuit)
  const kept: Evidence = by.length === 0 && rest.cuts === undefined ? { ...rest, by } : { ...evidenceOf(circuit), by }
  const { openings } = circuit
  if (circuit.state === 'closed') {
    return { ...kept, ...(openings === undefined ? { state: 'closed' } : { state: 'closed', openings }) }
  }
  if (circuit.openings === 1) return { ...kept, state: 'closed' }
  const before = { ...openedOf(circuit), openings: circuit.openings - 1 }
  if (circuit.state === 'open') return { ...kept, ...before, state: 'open', untilMs: now }
  return { ...kept, ...before, state: 'probing', trials: circuit.trials, limit: circuit.limit }
}

/** A good health check after a bad one: trials begin at once, several at a time. What was sent before is no trial. */
export function revived(circuit: Circuit, now: number): Circuit {
  if (circuit.state === 'closed') return circuit
  const { openings } = circuit
  const untilMs = Math.min(circuit.untilMs, now)
  const opened = { openedAt: now, untilMs, openings }
  return { ...evidenceOf(circuit), ...opened, state: 'probing', trials: [], limit: TRIALS_AFTER_RECOVERY }
}

/** After a restart: trials whose bookings were lost no longer count. */
export function withTrials(circuit: Circuit, isKnown: (key: string) => boolean): Circuit {
  if (circuit.state !== 'probing') return circuit
  return circuit.trials.filter((key) => !isKnown(key)).reduce(withoutTrial, circuit)
}

/** A circuit from a snapshot, which an older version may have written. */
export function restored(circuit: Circuit, now: number): Circuit {
  if (circuit.state === 'closed') return circuit
  const { untilMs = now, openings } = circuit
  const opened = { ...openedOf(circuit), openedAt: circuit.openedAt ?? 0, untilMs, openings }
  if (circuit.state === 'probing' && Array.isArray(circuit.trials)) return circuit
  return { ...evidenceOf(circuit), ...opened, state: 'open' }
}
