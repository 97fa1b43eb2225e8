import type { Deadline } from '../../ports.ts'

export interface OpenDeadline extends Deadline {
  /** Everything asked for is there: stops the clock. */
  end(): void
}

/** Starts now. Work that outlives it is told by the signal, and nobody waits for it. */
export function openDeadline(budgetMs: number, now: () => number): OpenDeadline {
  const endsAt = now() + budgetMs
  const controller = new AbortController()
  const over = new Promise<null>((resolve) => controller.signal.addEventListener('abort', () => resolve(null)))
  const timer = setTimeout(() => controller.abort(new Error(`the budget of ${budgetMs} ms is spent`)), budgetMs)
  return {
    budgetMs,
    signal: controller.signal,
    get isOver() {
      return controller.signal.aborted
    },
    get leftMs() {
      return Math.max(0, endsAt - now())
    },
    within: (work) => Promise.race([work.then((value) => ({ value })), over]),
    end: () => clearTimeout(timer),
  }
}
