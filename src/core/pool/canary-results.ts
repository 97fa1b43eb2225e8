/** Results of the semantic canary of one pool: counts of each engine, and engines whose answers stand out. */
import { Disagreements } from '../canary/disagreements.ts'
import type { EngineSignal } from '../contract/engine-signal.ts'
import type { EngineState } from './pool-engines/engine-state.ts'
import type { PoolEvents } from './pool-events.ts'

type ComparedSignal = Extract<EngineSignal, { readonly kind: 'compared' }>

interface CanaryParts {
  readonly find: (id: string) => EngineState | undefined
  readonly events: PoolEvents
  /** Whether one more engine may be taken out of use. */
  readonly mayTakeOut: (engine: EngineState) => boolean
}

export class CanaryResults {
  readonly #parts: CanaryParts
  readonly #disagreements = new Disagreements()
  /** Engines whose answers stand out get no requests. */
  ejects = false

  constructor(parts: CanaryParts) {
    this.#parts = parts
  }

  compared({ engine, other, agree }: ComparedSignal, now: number): void {
    const { find } = this.#parts
    const [compared, comparedWith] = [find(engine), find(other)]
    if (compared === undefined || comparedWith === undefined) return
    count(compared, agree)
    count(comparedWith, agree)
    const changed = this.#disagreements.record(engine, other, agree)
    const found = changed === null ? undefined : find(changed)
    if (found !== undefined) this.#changed(found, now)
  }

  #changed(engine: EngineState, now: number): void {
    const { events, mayTakeOut } = this.#parts
    const id = engine.spec.id
    const { standsOut, of, hits } = this.#disagreements.count(id)
    engine.compared = { ...engine.compared!, standsOutSince: standsOut ? now : null }
    engine.isQuarantined = standsOut && this.ejects && mayTakeOut(engine)
    if (!standsOut) return events.raise({ event: 'engine_agrees', engine: id, since: now }, now)
    const counts = { compared: of, disagreed: hits, taken_out: engine.isQuarantined }
    events.raise({ event: 'engine_disagrees', engine: id, since: now, ...counts }, now)
  }
}

function count(engine: EngineState, agree: boolean): void {
  const { total, disagreed, standsOutSince } = engine.compared ?? { total: 0, disagreed: 0, standsOutSince: null }
  engine.compared = { total: total + 1, disagreed: disagreed + (agree ? 0 : 1), standsOutSince }
}
