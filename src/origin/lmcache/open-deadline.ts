import type { Deadline } from '../../ports/deadline.ts'
import type { Timer, Timers } from '../../ports/timers.ts'
import { DeadlineError } from '../../timeout.ts'
import { defaultTimers } from '../../timers.ts'

interface OpenDeadline extends Deadline {
  /** Stops the timer. Call it when all results are there. */
  end(): void
}

/** Starts a deadline. The signal aborts work that takes longer; no caller waits for it. @testing */
export const openDeadline = (budgetMs: number, clock: Clock): OpenDeadline => new TimedDeadline(budgetMs, clock)

interface Clock {
  now(): number
  /** Absent: timers of the runtime. */
  readonly timers?: Timers
}

class TimedDeadline implements OpenDeadline {
  readonly budgetMs: number
  /** A field, because calls are made with copies of the limits. */
  readonly signal: AbortSignal
  readonly #clock: Clock
  readonly #endsAt: number
  readonly #controller = new AbortController()
  readonly #over: Promise<null>
  readonly #timer: Timer

  constructor(budgetMs: number, clock: Clock) {
    this.budgetMs = budgetMs
    this.#clock = clock
    this.#endsAt = clock.now() + budgetMs
    this.signal = this.#controller.signal
    this.#over = new Promise((resolve) => this.signal.addEventListener('abort', () => resolve(null)))
    const { timers = defaultTimers } = clock
    this.#timer = timers.set(budgetMs, () => this.#controller.abort(new DeadlineError(budgetMs)))
  }

  get isOver(): boolean {
    return this.signal.aborted
  }

  get leftMs(): number {
    return Math.max(0, this.#endsAt - this.#clock.now())
  }

  within<Value>(work: Promise<Value>): Promise<{ readonly value: Value } | null> {
    return Promise.race([work.then((value) => ({ value })), this.#over])
  }

  end(): void {
    this.#timer.cancel()
  }
}
