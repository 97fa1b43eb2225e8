import { expect, it } from 'vitest'
import { DeadlineError, withDeadline, withTimeout } from '../src/timeout.ts'

/** Timers that a test fires by hand. */
function manualTimers() {
  const fires: (() => void)[] = []
  let cancelled = 0
  const timers = {
    set: (_delayMs: number, fire: () => void) => {
      fires.push(fire)
      return { cancel: () => void cancelled++ }
    },
  }
  return { timers, fire: () => fires[0]!(), cancelled: () => cancelled }
}

it('a timeout passes on the result of work that ends in time, and cancels the timer', async () => {
  const { timers, cancelled } = manualTimers()
  await expect(withDeadline(5, Promise.resolve('done'), { timers })).resolves.toBe('done')
  await expect(withDeadline(5, Promise.reject(new Error('broken')), { timers })).rejects.toThrow('broken')
  await expect.poll(cancelled).toBe(2)
})

it('a timeout rejects with a DeadlineError when the limit is reached first', async () => {
  const { timers, fire } = manualTimers()
  const waiting = withDeadline(5, new Promise(() => {}), { timers })
  fire()
  await expect(waiting).rejects.toBeInstanceOf(DeadlineError)
})

it('a timeout rejects when the signal is aborted, before or during the wait', async () => {
  const { timers } = manualTimers()
  const controller = new AbortController()
  const waiting = withDeadline(5, new Promise(() => {}), { timers, signal: controller.signal })
  controller.abort()
  await expect(waiting).rejects.toBeInstanceOf(DeadlineError)
  const late = withDeadline(5, new Promise(() => {}), { timers, signal: controller.signal })
  await expect(late).rejects.toBeInstanceOf(DeadlineError)
})

it('a timeout returns null for work that fails', async () => {
  await expect(withTimeout(1_000, Promise.reject(new Error('broken')))).resolves.toBeNull()
  await expect(withTimeout(1_000, Promise.resolve(1))).resolves.toEqual({ value: 1 })
})
