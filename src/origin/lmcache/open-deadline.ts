import type { Deadline } from '../../ports/deadline.ts'
import type { Timer } from '../../ports/timers.ts'
import { DeadlineError } from '../../timeout.ts'
import { defaultTimers } from '../../timers.ts'

interface OpenDeadline extends Deadline {
  /** Stops the timer. Call it when all results are there. */
  end(): void
}

/** Starts a deadline. The signal aborts work that takes longer; no caller waits for it. @testing */
export const openDeadline = (budgetMs: number, now: () => number): OpenDeadline => new TimedDeadline(budgetMs, now)

class TimedDeadline implements OpenDeadline {
  readonly budgetMs: number
  /** A field, because calls are made with copies of the limits. */
  readonly signal: AbortSignal
  readonly #now: () => number
  readonly #endsAt: number
  readonly #controller = new AbortController()
  readonly #over: Promise<null>
  readonly #timer: Timer

  constructor(budgetMs: number, now: () => number) {
    this.budgetMs = budgetMs
    this.#now = now
    this.#endsAt = now() + budgetMs
    this.signal = this.#controller.signal
    this.#over = new Promise((resolve) => this.signal.addEventListener('abort', () => resolve(null)))
    this.#timer = defaultTimers.set(budgetMs, () => this.#controller.abort(new DeadlineError(budgetMs)))
  }

  get isOver(): boolean {
    return this.signal.aborted
  }

  get leftMs(): number {
    return Math.max(0, this.#endsAt - this.#now())
  }

  within<Value>(work: Promise<Value>): Promise<{ readonly value: Value } | null> {
    return Promise.race([work.then((value) => ({ value })), this.#over])
  }

  end(): void {
    this.#timer.cancel()
  }
}
