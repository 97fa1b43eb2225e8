/** Budgets of keys and teams, and what they have used. */
import { DAY_MS, dayOf } from '../utc-day.ts'

type BudgetPeriod = 'day' | 'month'

/** What an account may use in a period. null: no limit of this kind. */
export interface Budget {
  readonly per: BudgetPeriod
  readonly tokens: number | null
  readonly engineS: number | null
  readonly money: number | null
  /** What happens to requests when it is spent. */
  readonly atEnd: 'refuse' | 'sheddable'
}

export interface BudgetAmounts {
  readonly tokens: number
  readonly engineS: number
  readonly money: number
}

export type BudgetUnit = keyof BudgetAmounts

const BUDGET_UNITS = ['tokens', 'engineS', 'money'] as const satisfies readonly BudgetUnit[]

/** Adds amounts to an account. Without amounts it reads. */
export interface BudgetCharge extends BudgetAmounts {
  readonly key: string
}

/** Use of an account in the current day and month. */
export interface BudgetUse {
  /** Number of the day and of the month in UTC. */
  readonly day: number
  readonly month: number
  readonly ofDay: BudgetAmounts
  readonly ofMonth: BudgetAmounts
}

export const NOTHING_USED: BudgetAmounts = { tokens: 0, engineS: 0, money: 0 }

const MONTHS = 12

/** Months since the year 0. */
export function monthOf(now: number): number {
  const date = new Date(now)
  return date.getUTCFullYear() * MONTHS + date.getUTCMonth()
}

/** Start of the next period, ms since the epoch. */
export function resetsAt(per: BudgetPeriod, now: number): number {
  if (per === 'day') return (dayOf(now) + 1) * DAY_MS
  const next = monthOf(now) + 1
  return Date.UTC(Math.floor(next / MONTHS), next % MONTHS)
}

export const addAmounts = (a: BudgetAmounts, b: BudgetAmounts): BudgetAmounts => ({
  tokens: a.tokens + b.tokens,
  engineS: a.engineS + b.engineS,
  money: a.money + b.money,
})

/** Adds amounts to a use, which begins anew with each period. `used` null: nothing yet. */
export function charged(used: BudgetUse | null, amounts: BudgetAmounts, now: number): BudgetUse {
  // A clock that was set back stays in the period.
  const day = Math.max(dayOf(now), used?.day ?? 0)
  const month = Math.max(monthOf(now), used?.month ?? 0)
  return {
    day,
    month,
    ofDay: addAmounts(used?.day === day ? used.ofDay : NOTHING_USED, amounts),
    ofMonth: addAmounts(used?.month === month ? used.ofMonth : NOTHING_USED, amounts),
  }
}

/** One limit of a budget and its state. */
export interface BudgetState {
  readonly per: BudgetPeriod
  readonly unit: BudgetUnit
  readonly limit: number
  readonly used: number
  readonly atEnd: Budget['atEnd']
}

/** State of each limit of the budgets, in their order. */
export function budgetStates(budgets: readonly Budget[], used: BudgetUse | null, now: number): readonly BudgetState[] {
  const { ofDay, ofMonth } = charged(used, NOTHING_USED, now)
  return budgets.flatMap((budget) =>
    BUDGET_UNITS.flatMap((unit) => {
      const { per, atEnd, [unit]: limit } = budget
      return limit === null ? [] : [{ per, unit, limit, used: (per === 'day' ? ofDay : ofMonth)[unit], atEnd }]
    }),
  )
}
