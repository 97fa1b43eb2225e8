/** Prefills that took many times as long as usual, before the responses end from which the pace is learned. */
import { costModelSeconds, type PrefillCostModel, type PrefillSize } from './prefill-cost-model.ts'

/** Multiple of the usual time, and time beyond it in seconds, from which a prefill is late. */
const LATE_TIMES = 2.5
const LATE_S = 0.1

/** Late prefills in a row that show that the engine is slow. */
const NEEDED = 2

/** Half-life of the evidence, ms: as the price comes down, single requests try the engine again. */
const HALF_LIFE_MS = 15_000

export interface MeasuredPrefill {
  /** As if nothing of it were cached: what the engine has lost is no sign of its speed. */
  readonly size: PrefillSize
  readonly seconds: number
  /** Milliseconds since the epoch. */
  readonly at: number
}

/**
 * Pace of an engine that has just become slow. The learned pace follows within many responses, because single late ones
 * are usual; several first tokens in a row that are late by a multiple, at an engine without a queue, are not.
 */
export class LatePrefills {
  /** The last ones in a row. */
  #late: MeasuredPrefill[] = []

  /** Whether a prefill that took that much longer than predicted is news, s. */
  isNews(laterS: number): boolean {
    return laterS >= LATE_S || this.#late.length > 0
  }

  /** @param usual learned pace of the engine */
  observe(prefill: MeasuredPrefill, usual: PrefillCostModel): void {
    const usualS = costModelSeconds(usual, prefill.size)
    if (prefill.seconds < Math.max(LATE_TIMES * usualS, usualS + LATE_S)) this.#late = []
    else this.#late = [...this.#late, prefill].slice(-NEEDED)
  }

  /** The engine is as fast as before, or another one. */
  forget(): void {
    this.#late = []
  }

  /** Returns the multiple of the usual time that a prefill takes now; 1: as usual. */
  times(usual: PrefillCostModel, now: number): number {
    if (this.#late.length < NEEDED) return 1
    const times = Math.min(...this.#late.map(({ seconds, size }) => seconds / costModelSeconds(usual, size)))
    const age = Math.max(0, now - this.#late.at(-1)!.at) / HALF_LIFE_MS
    return 1 + Math.max(0, times - 1) * 2 ** -age
  }
}
