/** Learned paces of the engines of a pool, compared within engines of the same role and profile. */
import type { EngineState } from '../pool-engines/engine-state.ts'

/** Multiple of its siblings' median pace from which an engine is slow. */
const SLOW_TIMES = 3

interface Pace {
  readonly engine: EngineState
  /** Seconds of a usual prompt. */
  readonly seconds: number
}

/** Sorted once for all engines, since each look compares each engine with its siblings. */
export class SiblingPaces {
  /** The fastest first. */
  readonly #groups = new Map<string, Pace[]>()

  /** @param paceS seconds of a usual prompt by the engine's own pace; null: not learned */
  constructor(engines: readonly EngineState[], paceS: (engine: EngineState) => number | null) {
    for (const engine of engines) {
      const seconds = paceS(engine)
      if (seconds === null) continue
      const group = this.#groups.get(groupOf(engine)) ?? []
      this.#groups.set(groupOf(engine), group)
      group.push({ engine, seconds })
    }
    for (const group of this.#groups.values()) group.sort((a, b) => a.seconds - b.seconds)
  }

  /** Whether the pace of the engine is a multiple of the median of its siblings. */
  isBehind(engine: EngineState): boolean {
    const own = this.of(engine)
    return own !== null && own.timesMedian > SLOW_TIMES
  }

  /** Returns the pace of the engine, and what multiple of its siblings' median it is; null: one of them is unknown. */
  of(engine: EngineState): { readonly seconds: number; readonly timesMedian: number } | null {
    const group = this.#groups.get(groupOf(engine)) ?? []
    const own = group.findIndex((pace) => pace.engine === engine)
    if (own === -1 || group.length === 1) return null
    const middle = (group.length - 1) >> 1
    const median = group[middle < own ? middle : middle + 1]!
    const { seconds } = group[own]!
    return { seconds, timesMedian: seconds / median.seconds }
  }
}

const groupOf = ({ spec: { role, profile } }: EngineState): string => `${role} ${profile ?? ''}`
