import { expect, it } from 'vitest'
import { LogClock } from '../../../src/platform/node/log-clock.ts'

it('the log clock formats each time as Date does, also before and after a second ends and if the clock is set back', () => {
  let now = 0
  const clock = new LogClock(() => now)
  const times = [0, 7, 42, 999, 1000, 1_795_854_657_998, 1_795_854_658_001, 1_795_854_657_999]
  for (now of times) expect(clock.time()).toBe(new Date(now).toISOString())
})
