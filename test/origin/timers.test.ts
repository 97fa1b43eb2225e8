import { expect, it } from 'vitest'
import { IdleTimer, StageTimer } from '../../src/origin/timers.ts'

it('an idle timer that wakes before the limit of silence sleeps again', async () => {
  // Listening starts at 0; the timer wakes at 2 ms, and again at 100 ms.
  const times = [0, 2, 100]
  let reads = 0
  await new Promise<void>((resolve) => new IdleTimer(() => times[reads++]!, 5, resolve).listen())
  expect(reads).toBe(3)
})

it('stages of several attempts add up', () => {
  const timer = new StageTimer({ route: 1 })
  timer.add('route', 2)
  timer.addAll({ route: 4, connect: 8 })
  expect(timer.snapshot()).toEqual({ route: 7, connect: 8 })
})
