import type { EngineSignal } from '../core/contract/engine-signal.ts'
import type { EngineTarget } from './engine-target.ts'

/** Checks the health of an engine. Timers and alarms of the platform call it. */
export interface Probe {
  /** null: the gateway could not send the check. */
  (target: EngineTarget, now: () => number): Promise<ProbeSignal | null>
}

/**
 * Result of a one-token request of the gateway itself. `unclear`: the engine does not serve such requests, or has no
 * room for one.
 */
export type TrialVerdict = Extract<EngineSignal, { readonly kind: 'trial' }>['result']

export type ProbeSignal = Extract<EngineSignal, { readonly kind: 'probe' }>
