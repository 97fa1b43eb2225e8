import { expect, it } from 'vitest'
import { engineState } from '../../../kit/engine-state.ts'
import { engine, stats } from '../../../kit/pool-fixtures.ts'

it('an engine has the values of its last report for a minute, and none at its end or before the first report', () => {
  const state = engineState(0, engine('a'))
  expect(state.statsAt(1_000)).toBeNull()
  const value = stats({ waiting: 2 })
  state.stats = { value, at: 1_000 }
  expect(state.statsAt(60_999)).toBe(value)
  expect(state.statsAt(61_000)).toBeNull()
})
