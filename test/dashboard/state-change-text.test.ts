import { expect, it } from 'vitest'
import { changeText, toneOfChange } from '../../src/dashboard/state-change-text.ts'

it('a change of state is worded by its aspect, with the reason in words', () => {
  const at = 0
  expect(changeText({ at, aspect: 'health', to: 'unhealthy', reason: 'connect' })).toBe(
    'health check failed (no connection)',
  )
  expect(changeText({ at, aspect: 'circuit', to: 'open', reason: 'first_byte_timeout' })).toBe(
    'circuit opened (no answer in time)',
  )
  expect(changeText({ at, aspect: 'use', to: 'draining' })).toBe('draining')
  expect(changeText({ at, aspect: 'condition', to: 'wedged' })).toBe('wedged')
  expect(changeText({ at, aspect: 'condition', to: 'well' })).toBe('well again')
})

it('a change of state is red if the engine serves nothing by itself, and green at the end of it', () => {
  expect(toneOfChange({ to: 'open' })).toBe('bad')
  expect(toneOfChange({ to: 'draining' })).toBe('warn')
  expect(toneOfChange({ to: 'serving' })).toBe('good')
})
