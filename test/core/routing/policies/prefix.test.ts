import { expect, it } from 'vitest'
import { rankingBy } from '../ranked-policy.ts'

const { order } = rankingBy('prefix')

it('prefix follows the longest cached prefix while load is balanced', () => {
  expect(order(1000, { idle: {}, some: { cachedTokens: 400 }, longest: { cachedTokens: 800, requests: 60 } })).toEqual([
    'longest',
    'some',
    'idle',
  ])
})

it.each([
  ['by load if both limits of imbalance are exceeded', 65 + 1, 1, 'idle'],
  ['by cache if only the absolute limit is exceeded', 200 + 65, 200, 'cached'],
  ['by cache if only the relative limit is exceeded', 64, 0, 'cached'],
])('prefix ranks %s', (_, busy, rest, winner) => {
  expect(order(1000, { idle: { requests: rest }, cached: { cachedTokens: 900, requests: busy } })[0]).toBe(winner)
})

it('prefix ranks by load unless an engine has more than 30 % of the prompt', () => {
  expect(order(1000, { held: { cachedTokens: 300, requests: 1 }, idle: {} })[0]).toBe('idle')
  expect(order(1000, { held: { cachedTokens: 301, requests: 1 }, idle: {} })[0]).toBe('held')
})
