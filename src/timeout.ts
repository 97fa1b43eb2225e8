/** Limits the time that a caller waits for a promise. The work itself continues. */
import type { AbortSignalLike } from './ports/abort-signal.ts'
import type { Timers } from './ports/timers.ts'
import { defaultTimers } from './timers.ts'

/** The limit was reached, or the caller's signal was aborted, before the work ended. */
export class DeadlineError extends Error {
  constructor(limitMs: number) {
    super(`no result within ${limitMs} ms`)
    this.name = 'DeadlineError'
  }
}

interface DeadlineOptions {
  /** Absent: timers of the runtime. */
  readonly timers?: Timers | undefined
  /** Ends the wait early when it is aborted. */
  readonly signal?: AbortSignalLike | null
}

/** Resolves or rejects as `work` does, within `limitMs`. Then rejects with a DeadlineError. */
export function withDeadline<Value>(
  limitMs: number,
  work: Promise<Value>,
  { timers = defaultTimers, signal = null }: DeadlineOptions = {},
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = timers.set(limitMs, () => expire())
    const stop = () => {
      timer.cancel()
      signal?.removeEventListener('abort', expire)
    }
    const expire = () => {
      stop()
      reject(new DeadlineError(limitMs))
    }
    signal?.addEventListener('abort', expire)
    if (signal?.aborted === true) expire()
    void work.then(resolve, reject).finally(stop)
  })
}

/** The result of `work`; null: it failed, or took longer than `limitMs`. Never rejects. */
export const withTimeout = <Value>(
  limitMs: number,
  work: Promise<Value>,
  options: DeadlineOptions = {},
): Promise<{ readonly value: Value } | null> =>
  withDeadline(limitMs, work, options).then(
    (value) => ({ value }),
    () => null,
  )
