import { BudgetCounter } from './core/budgets/budget-counter.ts'
import { KeyLimiter } from './core/limits/key-limiter.ts'
import type { Limiter } from './ports/limiter.ts'

/** Limits per key in the memory of this process. */
export function memoryLimiter(now: () => number): Limiter {
  const limiter = new KeyLimiter()
  const budgets = new BudgetCounter()
  return {
    reserve: (request) => limiter.reserve(request, now()),
    charge: (charge) => budgets.charge(charge, now()),
    settle: (settlement) => limiter.settle(settlement, now()),
  }
}
