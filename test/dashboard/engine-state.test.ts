import { expect, it } from 'vitest'
import { stateOf } from '../../src/dashboard/engine-state.ts'

it('the state of an engine with a half-open circuit is written as in the docs', () => {
  const engine = { id: 'a', role: 'any', available: true, circuit: 'half_open' } as const
  expect(stateOf(engine)).toEqual({ state: 'circuit', text: 'circuit half-open' })
})
