import type { Condition } from '../contract/pool-digest.ts'
import type { HurtFields } from './condition/affected-requests.ts'

/** Event for the gateway's log, since a pool has none. */
export interface PoolEvent {
  /**
   * `panic_mode`: a request was placed although circuits exclude its engine. `ejection_withheld`: a circuit stayed
   * closed because of a limit of ejection. `engine_down`, `engine_up`: an engine stopped serving, or serves again.
   * `engine_behind`: it is slow or saturated. `pool_stalled`: half of the engines or more are wedged at the same time,
   * so the cause may be outside of them; `engine` is the last one. `ranks_ignored`: a server does not send requests to
   * the chosen rank, so its ranks are one engine. `ranks_differ`: its metrics show another number of ranks than
   * configured. `engine_disagrees`, `engine_agrees`: its answers stand out from those of others, or no longer do.
   */
  readonly event:
    | 'panic_mode'
    | 'ejection_withheld'
    | 'engine_down'
    | 'engine_up'
    | 'engine_behind'
    | 'pool_stalled'
    | 'ranks_ignored'
    | 'ranks_differ'
    | 'engine_disagrees'
    | 'engine_agrees'
  readonly engine: string
  /** Condition of the engine; `engine_up`: the one that ended. */
  readonly condition?: Condition
  /** Start of the condition, ms since the epoch. */
  readonly since?: number
  /** Requests without a first token that wait there. Absent: of another event. */
  readonly hurt?: HurtFields
  /** Comparisons of its answers, and those that disagreed. */
  readonly compared?: number
  readonly disagreed?: number
  /** `engine_down`, `engine_disagrees`: whether it gets no more requests. A limit of ejection may keep it in use. */
  readonly taken_out?: boolean
  /** `engine_up`: for how long it was down. */
  readonly down_ms?: number
  /** `pool_stalled`: number of wedged engines. */
  readonly wedged?: number
  /** Ranks of a server: `ranks_ignored`, as used before; `ranks_differ`, as its metrics show. */
  readonly ranks?: number
  /** Limit of `ejection_withheld`: `max_ejected_share`, or `last_engine` (failures of one client only). */
  readonly limit?: 'max_ejected_share' | 'last_engine'
}

/** Fields of an event in the line of a log, beside its name. */
export function logFieldsOf(raised: PoolEvent): Readonly<Record<string, unknown>> {
  const { event: _, hurt, ...fields } = raised
  return { ...fields, ...hurt }
}

/** Minimum interval of equal events in the log, milliseconds. The metrics count all. */
const REPEAT_MS = 60_000
/** Maximum number of pending events. */
const KEPT = 16

/** Events since the last placement, whose response carries them to the gateway's log. */
export class PoolEvents {
  #waiting: PoolEvent[] = []
  readonly #raisedAt = new Map<string, number>()

  raise(event: PoolEvent, now: number): void {
    const isOfPool = event.event === 'panic_mode' || event.event === 'pool_stalled'
    const name = isOfPool ? event.event : `${event.event} ${event.engine}`
    const isChange = event.event === 'engine_down' || event.event === 'engine_up'
    if (isChange && this.#waiting.length < KEPT) return void this.#waiting.push(event)
    if (now - (this.#raisedAt.get(name) ?? -Infinity) < REPEAT_MS || this.#waiting.length >= KEPT) return
    this.#raisedAt.set(name, now)
    this.#waiting.push(event)
  }

  /** Returns and clears the events. */
  take(): readonly PoolEvent[] {
    const taken = this.#waiting
    if (taken.length > 0) this.#waiting = []
    return taken
  }
}
