import { DeadlineError, withDeadline } from '../../timeout.ts'

/** Whether work ends within a limit, and before an abort. */
export async function within(work: Promise<unknown>, limitMs: number, abort: AbortSignal | null): Promise<boolean> {
  try {
    await withDeadline(limitMs, work, { signal: abort })
    return true
  } catch (error) {
    if (error instanceof DeadlineError) return false
    throw error
  }
}
