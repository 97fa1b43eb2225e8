import type { SharedCircuit } from './sync.ts'

/** Time that the isolate with the trial has before the next isolate may try, ms. */
const TRIAL_MS = 10_000

/** Head start of each isolate over the next one, ms: longer than a sync. */
const TURN_MS = 1_500

/** A circuit that an isolate has changed. Plain data, so that it can be stored. */
export interface CircuitRecord {
  readonly state: 'closed' | 'open'
  /** Earliest trial, ms since the epoch of the object's clock. */
  readonly untilMs: number
  readonly openings: number
  readonly isHung: boolean
  /** Isolate that tries first: its request opened the circuit, or is the trial. */
  readonly tester: string
}

/** Applies a change by an isolate. null: no isolate has opened the circuit. */
export function changedCircuit(
  known: CircuitRecord | null,
  { state, leftMs, openings, isHung = false }: SharedCircuit,
  { isolate, now }: { readonly isolate: string; readonly now: number },
): CircuitRecord | null {
  if (state === 'open') return { state, untilMs: now + leftMs, openings, isHung, tester: isolate }
  if (known === null) return null
  if (state === 'closed') return { ...known, state, tester: isolate }
  // The others wait for the result of the trial.
  return known.state === 'open' ? { ...known, untilMs: now + TRIAL_MS, tester: isolate } : known
}

/**
 * Returns the circuit for one isolate. Isolates may try one after the other, so that a region without service gets one
 * trial and not one of each isolate.
 * @param isolates all isolates, in an order that is the same for each of them
 */
export function circuitFor(
  circuit: CircuitRecord,
  { isolate, isolates, now }: { readonly isolate: string; readonly isolates: readonly string[]; readonly now: number },
): SharedCircuit {
  const { state, untilMs, openings, isHung, tester } = circuit
  if (state === 'closed') return { state, leftMs: 0, openings: 0 }
  const place = (id: string) => Math.max(0, isolates.indexOf(id))
  const turn = (place(isolate) - place(tester) + isolates.length) % Math.max(1, isolates.length)
  const leftMs = Math.max(0, untilMs + turn * TURN_MS - now)
  return { state, leftMs, openings, ...(isHung ? { isHung } : {}) }
}
