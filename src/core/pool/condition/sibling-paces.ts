/** Learned paces of the engines of a pool, compared within engines of the same role and profile. */
import type { EngineState } from '../pool-engines/engine-state.ts'

/** Multiple of its siblings' median pace from which an engine is slow. */
const SLOW_TIMES = 3

interface Pace {
  /** Seconds of a usual prompt. */
  readonly seconds: number
  /** What multiple of its siblings' median it is. */
  readonly timesMedian: number
}

/** Compared once for all engines, since each look reads the pace of each engine several times. */
export class SiblingPaces {
  readonly #paces = new Map<EngineState, Pace>()

  /** @param paceS seconds of a usual prompt by the engine's own pace; null: not learned */
  constructor(engines: readonly EngineState[], paceS: (engine: EngineState) => number | null) {
    const groups = new Map<string, LearnedPace[]>()
    for (const engine of engines) {
      const seconds = paceS(engine)
      if (seconds === null) continue
      const key = `${engine.spec.role} ${engine.spec.profile ?? ''}`
      const group = groups.get(key)
      if (group === undefined) groups.set(key, [{ engine, seconds }])
      else group.push({ engine, seconds })
    }
    for (const group of groups.values()) if (group.length > 1) this.#compare(group)
  }

  /** Whether the pace of the engine is a multiple of the median of its siblings. */
  isBehind(engine: EngineState): boolean {
    const own = this.of(engine)
    return own !== null && own.timesMedian > SLOW_TIMES
  }

  /** Returns the pace of the engine; null: its own or those of all its siblings are unknown. */
  of(engine: EngineState): Pace | null {
    return this.#paces.get(engine) ?? null
  }

  #compare(group: LearnedPace[]): void {
    group.sort((a, b) => a.seconds - b.seconds)
    const middle = (group.length - 1) >> 1
    for (const [own, { engine, seconds }] of group.entries()) {
      const median = group[middle < own ? middle : middle + 1]!
      this.#paces.set(engine, { seconds, timesMedian: seconds / median.seconds })
    }
  }
}

interface LearnedPace {
  readonly engine: EngineState
  readonly seconds: number
}
