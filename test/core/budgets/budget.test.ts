import { expect, it } from 'vitest'
import { type Budget, budgetStates, charged, NOTHING_USED, resetsAt } from '../../../src/core/budgets/budget.ts'
import { BudgetCounter } from '../../../src/core/budgets/budget-counter.ts'

const NOON = Date.UTC(2026, 10, 30, 12)
const HOUR_MS = 3_600_000
const amounts = (tokens: number) => ({ tokens, engineS: tokens / 8, money: tokens / 4 })
const budget = (changes: Partial<Budget>): Budget => ({
  per: 'day',
  tokens: null,
  engineS: null,
  money: null,
  atEnd: 'refuse',
  ...changes,
})

it('a budget of a day starts again at midnight, and one of a month on its first day, in UTC', () => {
  const counter = new BudgetCounter()
  const charge = (tokens: number, now: number) => counter.charge({ key: 'ada', ...amounts(tokens) }, now)
  charge(10, NOON)
  expect(charge(5, NOON + HOUR_MS)).toMatchObject({ ofDay: amounts(15), ofMonth: amounts(15) })
  expect(charge(1, NOON + 12 * HOUR_MS)).toMatchObject({ ofDay: amounts(1), ofMonth: amounts(1) })
  expect(charge(2, NOON + 40 * HOUR_MS)).toMatchObject({ ofDay: amounts(2), ofMonth: amounts(3) })
  expect(new Date(resetsAt('day', NOON)).toISOString()).toBe('2026-12-01T00:00:00.000Z')
  expect(new Date(resetsAt('month', Date.UTC(2026, 11, 5))).toISOString()).toBe('2027-01-01T00:00:00.000Z')
})

it('a clock that was set back stays in the period of a budget', () => {
  const used = charged(null, amounts(7), NOON)
  expect(charged(used, amounts(1), NOON - 36 * HOUR_MS)).toMatchObject({ ofDay: amounts(8), day: used.day })
})

it('each limit of a budget has a state of its own', () => {
  const used = charged(null, amounts(50), NOON)
  const states = budgetStates([budget({ tokens: 40, money: 2 }), budget({ per: 'month', engineS: 100 })], used, NOON)
  expect(states.map(({ per, unit, limit, used: of }) => [per, unit, limit, of])).toEqual([
    ['day', 'tokens', 40, 50],
    ['day', 'money', 2, 12.5],
    ['month', 'engineS', 100, 6.25],
  ])
  expect(budgetStates([budget({ tokens: 40 })], used, NOON + 24 * HOUR_MS)[0]!.used).toBe(0)
})

it('a counter of budgets reads without an effect, and drops accounts of former months', () => {
  const counter = new BudgetCounter()
  for (let at = 0; at < 100; at++) counter.charge({ key: `r${at}`, ...NOTHING_USED }, NOON)
  expect(counter.size).toBe(0)
  for (let at = 0; at < 999; at++) counter.charge({ key: `k${at}`, ...amounts(1) }, NOON)
  counter.charge({ key: 'next', ...amounts(1) }, NOON + 24 * HOUR_MS)
  expect(counter.size).toBe(1)
})
