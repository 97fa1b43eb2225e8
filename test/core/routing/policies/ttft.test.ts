import { expect, it } from 'vitest'
import { policyNamed, rankingBy } from '../ranked-policy.ts'

const { order, costs } = rankingBy('ttft')

it('ttft adds queued and new work by the trapezoid formula', () => {
  // production-stack.md: work(1000, 0) = 500500, work(1000, 256) = 467604.
  expect(costs(1000, { busy: { queuedWork: 100_000, cachedTokens: 256 }, idle: {} })).toEqual({
    busy: 567_604,
    idle: 500_500,
  })
})

it('ttft leaves a cached engine once its queued work exceeds the work that the cache saves', () => {
  const saved = 500_500 - 467_604
  expect(order(1000, { idle: {}, cached: { cachedTokens: 256, queuedWork: saved - 1 } })[0]).toBe('cached')
  expect(order(1000, { idle: {}, cached: { cachedTokens: 256, queuedWork: saved + 1 } })[0]).toBe('idle')
})

it('ttft clamps cached tokens to the length of the prompt', () => {
  expect(costs(10, { over: { cachedTokens: 20 }, exact: { cachedTokens: 10 } })).toEqual({
    over: 0,
    exact: 0,
  })
})

it('ttft ranks by the queue alone if all engines share one cache', () => {
  const fleet = { holder: { cachedTokens: 900, queuedWork: 5 }, other: {} }
  expect(order(1000, fleet)[0]).toBe('holder')
  expect(order(1000, fleet, { sharedCache: true })[0]).toBe('other')
})

it('ttft with cache: lookup ignores the prefix index', () => {
  expect(policyNamed('ttft', { cache: 'lookup' }).needs).toContain('lookupTokens')
  expect(order(1000, { index: { cachedTokens: 900 }, looked: { lookupTokens: 500 } }, { cache: 'lookup' })[0]).toBe(
    'looked',
  )
})
