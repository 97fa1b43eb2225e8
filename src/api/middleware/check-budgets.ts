import type { Budgets } from '../budgets.ts'
import { hasBudget } from '../budgets.ts'
import type { Middleware } from './middleware.ts'

/** Refuses requests of keys and teams that have spent a budget, or lowers their class. */
export const checkBudgets =
  (budgets: Budgets): Middleware =>
  async (c, next) => {
    const caller = c.get('caller')
    if (hasBudget(caller)) c.set('caller', await budgets.admit(caller, c.get('incoming').scope))
    await next()
  }
