import { DurableObject } from 'cloudflare:workers'
import type { BudgetCharge, BudgetUse } from '../src/core/budgets/budget.ts'
import { BudgetCounter } from '../src/core/budgets/budget-counter.ts'
import { KeyLimiter } from '../src/core/limits/key-limiter.ts'
import type { LimitAnswer, LimitedRequest, RunningRequest, Settlement } from '../src/core/limits/key-limits.ts'

const DAY = 'day:'

const BUDGET = 'budget:'

/**
 * Limits and budgets of one key: `KeyLimiter` and `BudgetCounter` with transport, clock and storage. The tokens of the
 * day and what a budget has used survive an eviction. Those of the last minute and running requests need not: the
 * platform evicts only objects that were idle for longer, or for a deployment, after which a minute starts anew.
 */
export class LimitObject<Env = Cloudflare.Env> extends DurableObject<Env> {
  readonly #limiter = new KeyLimiter()
  readonly #budgets = new BudgetCounter()

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    void ctx.blockConcurrencyWhile(async () => {
      const days = await ctx.storage.list<{ readonly day: number; readonly tokens: number }>({ prefix: DAY })
      const budgets = await ctx.storage.list<BudgetUse>({ prefix: BUDGET })
      for (const [name, use] of budgets) this.#budgets.restore(name.slice(BUDGET.length), use)
      for (const [name, use] of days) this.#limiter.restoreDay(name.slice(DAY.length), use)
    })
  }

  async reserve(request: LimitedRequest): Promise<LimitAnswer> {
    const answer = this.#limiter.reserve(request, this.now())
    if (request.limits.tokensPerDay !== null) this.#saveDay(request.key)
    return answer
  }

  async renew(running: RunningRequest): Promise<void> {
    this.#limiter.renew(running, this.now())
  }

  async settle(settlement: Settlement): Promise<void> {
    this.#limiter.settle(settlement, this.now())
    this.#saveDay(settlement.key)
  }

  /** Adds amounts to the budget of a key. */
  async charge(charge: BudgetCharge): Promise<BudgetUse> {
    const use = this.#budgets.charge(charge, this.now())
    const isRead = charge.tokens + charge.engineS + charge.money === 0
    if (!isRead) void this.ctx.storage.put(BUDGET + charge.key, use, { allowUnconfirmed: true })
    return use
  }

  /** Milliseconds since the epoch. Tests replace it. */
  protected now(): number {
    return Date.now()
  }

  /** Unconfirmed, so that no response waits for storage: a crash loses the tokens of the last moments. */
  #saveDay(key: string): void {
    const use = this.#limiter.dayUse(key)
    if (use !== null) void this.ctx.storage.put(DAY + key, use, { allowUnconfirmed: true })
  }
}
