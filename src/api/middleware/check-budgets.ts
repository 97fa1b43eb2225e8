import type { Budgets } from '../budgets.ts'
import { hasBudget } from '../budgets.ts'
import type { Middleware } from './middleware.ts'

/** Refuses requests of keys and teams that have spent a budget, or lowers their class. */
export const checkBudgets =
  (budgets: Budgets): Middleware =>
  async (request) => {
    const { caller, incoming } = request
    if (hasBudget(caller)) request.caller = await budgets.admit(caller, incoming.scope)
  }
