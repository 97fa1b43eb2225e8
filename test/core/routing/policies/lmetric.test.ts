import { expect, it } from 'vitest'
import { rankingBy } from '../ranked-policy.ts'

const { order, costs } = rankingBy('lmetric')

it('lmetric multiplies new and queued tokens plus one by the batch plus one', () => {
  expect(costs(1000, { a: { cachedTokens: 900, requests: 4 }, b: { requests: 0 } })).toEqual({
    a: 101 * 5,
    b: 1001,
  })
  expect(costs(1000, { a: { queuedPrefillTokens: 500 } })).toEqual({ a: 1501 })
  expect(costs(1000, { a: { queuedPrefillTokens: 500 } }, { queued: false })).toEqual({ a: 1001 })
})

it('lmetric ranks fully cached engines by load', () => {
  expect(order(1000, { busy: { cachedTokens: 1000, requests: 9 }, idle: { cachedTokens: 1000 } })[0]).toBe('idle')
})
