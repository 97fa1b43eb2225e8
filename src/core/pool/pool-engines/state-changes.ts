/** Last changes of an engine's state, for the engineer on call. */
import type { Condition, StateChange } from '../../contract/pool-digest.ts'

/** Changes kept of each engine. */
const CHANGES_KEPT = 12

/** An engine as far as its changes are kept. */
interface WatchedState {
  readonly healthy: boolean
  readonly problem?: string | undefined
  readonly circuit: { readonly state: string }
  readonly lastFailure?: { readonly failure: string } | undefined
  readonly isLeaving: boolean
  readonly asleep: boolean
  readonly paused: object | null
  readonly condition: { readonly condition: Condition }
}

type Aspect = StateChange['aspect']

const ASPECTS: readonly Aspect[] = ['health', 'circuit', 'use', 'condition']

/** Compares an engine with its state at the last call. The caller decides how often, which bounds the cost. */
export class StateChanges {
  #kept: readonly StateChange[] = []
  #health: StateChange['to'] = 'healthy'
  #circuit: StateChange['to'] = 'closed'
  #use: StateChange['to'] = 'serving'
  #condition: Condition = 'well'

  /** Oldest first. */
  get list(): readonly StateChange[] {
    return this.#kept
  }

  observe(engine: WatchedState, now: number): void {
    const health = healthOf(engine)
    if (health !== this.#health) this.#add('health', (this.#health = health), now, engine.problem)
    const circuit = circuitOf(engine)
    if (circuit !== this.#circuit) {
      this.#circuit = circuit
      this.#add('circuit', circuit, now, circuit === 'open' ? engine.lastFailure?.failure : undefined)
    }
    const use = useOf(engine)
    if (use !== this.#use) this.#add('use', (this.#use = use), now)
    const { condition } = engine.condition
    // A trial decides within seconds.
    if (condition === 'suspect' || condition === this.#condition) return
    this.#add('condition', (this.#condition = condition), now)
  }

  /** Continues with stored changes. What differs since the last one of its kind is a change after the restart. */
  restore(kept: readonly StateChange[], engine: WatchedState): void {
    this.#kept = kept.slice(-CHANGES_KEPT)
    this.#health = healthOf(engine)
    this.#circuit = circuitOf(engine)
    this.#use = useOf(engine)
    for (const aspect of ASPECTS) {
      const last = this.#kept.findLast((change) => change.aspect === aspect)
      if (last?.aspect === 'health') this.#health = last.to
      if (last?.aspect === 'circuit') this.#circuit = last.to
      if (last?.aspect === 'use') this.#use = last.to
      if (last?.aspect === 'condition') this.#condition = last.to as Condition
    }
  }

  #add(aspect: Aspect, to: StateChange['to'], at: number, reason?: string): void {
    const change = { at, aspect, to, ...(reason === undefined ? {} : { reason }) }
    this.#kept = [...this.#kept.slice(1 - CHANGES_KEPT), change]
  }
}

const healthOf = ({ healthy }: WatchedState) => (healthy ? 'healthy' : 'unhealthy')

/** A half-open circuit is not closed: its trials are no changes. */
const circuitOf = ({ circuit }: WatchedState) => (circuit.state === 'closed' ? 'closed' : 'open')

function useOf({ isLeaving, asleep, paused }: WatchedState): StateChange['to'] {
  if (isLeaving) return 'draining'
  if (paused !== null) return 'paused'
  return asleep ? 'asleep' : 'serving'
}
