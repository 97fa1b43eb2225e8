/** Circuit breaker of one engine, as a union of its states. Plain data, so that a snapshot can store it. */
export type Circuit = Evidence & (ClosedCircuit | OpenCircuit | ProbingCircuit)

interface Evidence {
  /** Booking keys of the consecutive failures that opened it or may open it; empty after a timeout. */
  readonly by: readonly string[]
  /** Truncated streams since the last complete one; absent: none. */
  readonly truncations?: number
  /** Tenant of all these requests; null: several tenants, or no keys. Absent: no failures. */
  readonly client?: string | null
}

interface ClosedCircuit {
  readonly state: 'closed'
  /** How often it opened because of truncated streams since the last complete one. */
  readonly openings?: number
}

interface OpenTimes {
  /** Results of requests sent before this time are ignored. Milliseconds since the epoch. */
  readonly openedAt: number
  /** Earliest time of a trial, milliseconds since the epoch. */
  readonly untilMs: number
  readonly openings: number
  /** A timeout opened it. A passing health check is then no proof, because a hanging engine passes it, too. */
  readonly isHung?: true
}

interface OpenCircuit extends OpenTimes {
  readonly state: 'open'
}

/** Half-open state. */
interface ProbingCircuit extends OpenTimes {
  readonly state: 'half_open'
  /** Booking keys of the trial requests in flight. */
  readonly trials: readonly string[]
  /** Maximum number of concurrent trial requests. */
  readonly limit: number
}

export interface CircuitSettings {
  /** Consecutive failures that open it. */
  readonly failures: number
  /** How long it stays open at first, milliseconds. Each failed trial doubles it, up to 16 times. */
  readonly openMs: number
}

/**
 * Result of an attempt. `begun`: first token, the end is unknown. `truncated`: broken after the first token. `unclear`:
 * no evidence, such as an early client disconnect. `hung`: timeout, which opens the circuit at once, because each trial
 * costs a client the whole timeout.
 */
export type CircuitSignal = 'success' | 'begun' | 'failure' | 'truncated' | 'hung' | 'unclear'

const MAX_DOUBLINGS = 4

/** Concurrent trial requests while half-open, before the circuit closes. */
export const MAX_TRIALS = 8

/** Concurrent trial requests after a passing health check, so that a long prefill does not block short ones. */
const TRIALS_AFTER_RECOVERY = 4

/** Time before the gateway's own first trial, ms. Each opening in a row doubles it. */
const OWN_TRIAL_MS = 1_000

export const closed: Circuit = { state: 'closed', by: [] }

/** Whether the engine may be booked. */
export function admits(circuit: Circuit, now: number): boolean {
  if (circuit.state === 'closed') return true
  return circuit.state === 'open' ? now >= circuit.untilMs : circuit.trials.length < circuit.limit
}

/** Milliseconds until the next trial; null: depends on running trials. */
export function waitMs(circuit: Circuit, now: number): number | null {
  if (circuit.state === 'half_open') return circuit.trials.length < circuit.limit ? 0 : null
  return circuit.state === 'closed' ? 0 : Math.max(0, circuit.untilMs - now)
}

/** Records a booking. It is a trial if the circuit is not closed and has a free trial (panic mode may exceed it). */
export function booked(circuit: Circuit, key: string): Circuit {
  if (circuit.state === 'open') return { ...circuit, state: 'half_open', trials: [key], limit: 1 }
  if (circuit.state === 'closed' || circuit.trials.length >= circuit.limit) return circuit
  return { ...circuit, trials: [...circuit.trials, key] }
}

/** Whether the booking is a trial. */
const isTrial = (circuit: Circuit, key: string): boolean =>
  circuit.state === 'half_open' && circuit.trials.includes(key)

export interface JudgedAttempt {
  readonly key: string
  readonly now: number
  readonly settings: CircuitSettings
  /** When the request was sent, milliseconds since the epoch. Absent: unknown, treated as old. */
  readonly sentAt?: number
  /** Client of the request; null: unknown. */
  readonly client?: string | null
  /** Whether failures of this client alone (null: of several) may open a closed circuit. Default: they may. */
  readonly mayOpen?: (client: string | null) => boolean
}

/**
 * Returns the circuit after an attempt. While half-open, only failures of trials count. Successes count for every
 * request sent after the circuit opened, including those of panic mode.
 */
export function judged(circuit: Circuit, outcome: CircuitSignal, attempt: JudgedAttempt): Circuit {
  if (circuit.state !== 'closed' && !isTrial(circuit, attempt.key)) {
    const isFresh = attempt.sentAt !== undefined && attempt.sentAt > circuit.openedAt
    if (!isFresh || (outcome !== 'success' && outcome !== 'begun')) return circuit
  }
  switch (outcome) {
    case 'success':
      return closed
    case 'begun':
      return begun(circuit, attempt.settings)
    case 'unclear':
      return withoutTrial(circuit, attempt.key)
    case 'failure':
    case 'truncated':
    case 'hung':
      return failed(circuit, outcome, attempt)
  }
}

/**
 * Applies a passing health check: a half-open circuit doubles its trials, and closes beyond the maximum unless a
 * timeout opened it.
 */
export function probedHealthy(circuit: Circuit, settings: CircuitSettings): Circuit {
  if (circuit.state !== 'half_open') return circuit
  const limit = 2 * circuit.limit
  if (limit <= MAX_TRIALS) return { ...circuit, limit }
  return circuit.isHung === true ? { ...circuit, limit: MAX_TRIALS } : begun(circuit, settings)
}

const evidenceOf = ({ by, truncations, client }: Circuit): Evidence => ({
  by,
  ...(truncations === undefined ? {} : { truncations }),
  ...(client === undefined ? {} : { client }),
})

const openedOf = ({ openedAt, untilMs, openings, isHung }: OpenTimes): OpenTimes =>
  isHung === true ? { openedAt, untilMs, openings, isHung } : { openedAt, untilMs, openings }

/** Applies a first token. Whether streams complete is unknown: after truncations, the next one opens it again. */
function begun(circuit: Circuit, { failures }: CircuitSettings): Circuit {
  const { truncations, openings, client } = circuit
  if (truncations === undefined) return closed
  return {
    state: 'closed',
    by: [],
    truncations: Math.min(truncations, failures - 1),
    ...(client === undefined ? {} : { client }),
    ...(openings === undefined ? {} : { openings }),
  }
}

/** Without running trials the circuit is open again, and due at once. */
function withoutTrial(circuit: Circuit, key: string): Circuit {
  if (circuit.state !== 'half_open') return circuit
  const trials = circuit.trials.filter((trial) => trial !== key)
  if (trials.length > 0 || circuit.limit > 1) return { ...circuit, trials }
  return { ...evidenceOf(circuit), ...openedOf(circuit), state: 'open' }
}

function failed(circuit: Circuit, outcome: 'failure' | 'truncated' | 'hung', attempt: JudgedAttempt): Circuit {
  const { key, now, settings } = attempt
  const isHung = outcome === 'hung'
  const wasHalfOpen = circuit.state === 'half_open'
  // A timeout opens on its own: forgiving other failures does not close it.
  const by = isHung ? [] : outcome === 'truncated' ? circuit.by : wasHalfOpen ? [key] : [...circuit.by, key]
  const truncations = (circuit.truncations ?? 0) + (outcome === 'truncated' ? 1 : 0)
  const client = clientOf(circuit, attempt)
  const evidence: Evidence = truncations > 0 ? { by, truncations, client } : { by, client }
  const { openings = 0 } = circuit
  if (!wasHalfOpen) {
    const before: ClosedCircuit = openings > 0 ? { state: 'closed', openings } : { state: 'closed' }
    if (!isHung && by.length + truncations < settings.failures) return { ...evidence, ...before }
    if (attempt.mayOpen?.(client) === false) return isHung ? circuit : { ...atBrink(evidence, settings), ...before }
  } else if (now < circuit.untilMs) {
    // A request of panic mode was sent before the trial time: it does not extend the wait.
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

/** Client of all failures including this one; null: several or unknown. */
function clientOf(circuit: Circuit, { client = null }: JudgedAttempt): string | null {
  return circuit.client === undefined || circuit.client === client ? client : null
}

/** Keeps the maximum evidence of a closed circuit: the next failure is judged again. */
function atBrink({ by, truncations = 0, client }: Evidence, { failures }: CircuitSettings): Evidence {
  const keptTruncations = Math.min(truncations, failures - 1)
  const kept = by.slice(Math.max(0, by.length - (failures - 1 - keptTruncations)))
  if (kept.length + keptTruncations === 0) return { by: [] }
  const evidence: Evidence = keptTruncations > 0 ? { by: kept, truncations: keptTruncations } : { by: kept }
  return client === undefined ? evidence : { ...evidence, client }
}

/**
 * Removes a failure that the request caused, as if it had not happened.
 * @param isDoubtful the cause is uncertain: a circuit that was open before stays open
 */
export function excused(circuit: Circuit, key: string, now: number, isDoubtful = false): Circuit {
  if (!circuit.by.includes(key) || (isDoubtful && circuit.state !== 'closed' && circuit.openings > 1)) return circuit
  const by = circuit.by.filter((one) => one !== key)
  const { client: _, ...rest } = evidenceOf(circuit)
  const kept: Evidence =
    by.length === 0 && rest.truncations === undefined ? { ...rest, by } : { ...evidenceOf(circuit), by }
  const { openings } = circuit
  if (circuit.state === 'closed') {
    return { ...kept, ...(openings === undefined ? { state: 'closed' } : { state: 'closed', openings }) }
  }
  if (circuit.openings === 1) return { ...kept, state: 'closed' }
  const before = { ...openedOf(circuit), openings: circuit.openings - 1 }
  if (circuit.state === 'open') return { ...kept, ...before, state: 'open', untilMs: now }
  return { ...kept, ...before, state: 'half_open', trials: circuit.trials, limit: circuit.limit }
}

/** Applies the first passing health check after a failing one: trials start at once. Earlier requests are no trials. */
export function revived(circuit: Circuit, now: number): Circuit {
  if (circuit.state === 'closed') return circuit
  const { openings } = circuit
  const untilMs = Math.min(circuit.untilMs, now)
  const opened = { openedAt: now, untilMs, openings }
  return { ...evidenceOf(circuit), ...opened, state: 'half_open', trials: [], limit: TRIALS_AFTER_RECOVERY }
}

/** Applies a failed trial of the gateway itself: no request is a trial while it makes its own. */
export function postponed(circuit: Circuit, untilMs: number): Circuit {
  return circuit.state === 'open' && circuit.untilMs < untilMs ? { ...circuit, untilMs } : circuit
}

/** Time of the first trial of the gateway itself after the circuit opened, ms since the epoch. null: it is not open. */
export function ownTrialAt(circuit: Circuit): number | null {
  if (circuit.state !== 'open') return null
  return circuit.openedAt + OWN_TRIAL_MS * 2 ** Math.min(circuit.openings - 1, MAX_DOUBLINGS)
}

/** After a restart, removes trials whose bookings were lost. */
export function withTrials(circuit: Circuit, isKnown: (key: string) => boolean): Circuit {
  if (circuit.state !== 'half_open') return circuit
  return circuit.trials.filter((key) => !isKnown(key)).reduce(withoutTrial, circuit)
}

/** Reads a circuit of a snapshot, possibly of an older version. */
export function restored(circuit: Circuit, now: number): Circuit {
  if (circuit.state === 'closed') return circuit
  const { untilMs = now, openings } = circuit
  const opened = { ...openedOf(circuit), openedAt: circuit.openedAt ?? 0, untilMs, openings }
  if (circuit.state === 'half_open' && Array.isArray(circuit.trials)) return circuit
  return { ...evidenceOf(circuit), ...opened, state: 'open' }
}
