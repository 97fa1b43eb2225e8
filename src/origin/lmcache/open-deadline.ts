import type { Deadline } from '../../ports/deadline.ts'

interface OpenDeadline extends Deadline {
  /** Stops the timer. Call it when all results are there. */
  end(): void
}

/** Starts a deadline. The signal aborts work that takes longer; no caller waits for it. @testing */
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
