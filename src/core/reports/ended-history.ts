import { SPAN_MS, STEP_MS } from '../contract/pool-history.ts'

/** Ended requests of one step: [all, failed, rejected]. A list, so that sums over processes need no other code. */
export type EndedCounts = readonly [all: number, failed: number, rejected: number]

/** By start of the step, ms since the epoch. */
export type EndedByStep = Readonly<Record<string, EndedCounts>>

/** Counts ended and rejected requests of one gateway in steps. */
export class EndedHistory {
  readonly #steps = new Map<number, [number, number, number]>()

  add(kind: 'served' | 'failed' | 'rejected', now: number): void {
    const at = now - (now % STEP_MS)
    let step = this.#steps.get(at)
    if (step === undefined) {
      step = [0, 0, 0]
      this.#steps.set(at, step)
      for (const old of this.#steps.keys()) if (old <= at - SPAN_MS) this.#steps.delete(old)
    }
    step[0] += 1
    if (kind === 'failed') step[1] += 1
    if (kind === 'rejected') step[2] += 1
  }

  byStep(): EndedByStep {
    return Object.fromEntries([...this.#steps].map(([at, step]) => [String(at), [...step] as const]))
  }
}
