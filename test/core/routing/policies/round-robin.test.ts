import { expect, it } from 'vitest'
import { rankingBy } from '../ranked-policy.ts'

const { order } = rankingBy('round_robin')

it('round_robin chooses the engine with the lowest virtual time, whatever its load', () => {
  expect(order(1, { late: { turn: 3 }, next: { turn: 1, requests: 99 }, second: { turn: 2 } })).toEqual([
    'next',
    'second',
    'late',
  ])
})
