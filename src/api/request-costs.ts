/** Charges what requests cost to their keys, teams and models. */
import { type CostTotals, type CostUsage, moneyOf, type Payer } from '../core/cost/cost-usage.ts'
import type { CostAnswer, RequestCost } from '../core/cost/request-cost.ts'
import { logsRequests } from './access-log.ts'
import type { Caller } from './auth/caller.ts'
import type { Budgets } from './budgets.ts'
import { poolOf, type PoolRoute } from '../origin/pool-route.ts'
import type { Ports } from '../ports.ts'
import type { RequestScope } from '../ports/request-scope.ts'
import { timersOf } from '../timers.ts'

/** Delays before pool state in another place is asked again: the release may arrive after the question, ms. */
const ASK_AGAIN_MS: readonly number[] = [50, 100, 200, 500, 1_000, 2_000]

/** A booking that was released. */
interface ReleasedBooking {
  readonly route: PoolRoute
  /** `bookingKey`. */
  readonly key: string
  /** Id of the request. */
  readonly id: string
  readonly payer: Payer
  readonly caller: Caller
  readonly scope: RequestScope
}

interface CostParts {
  readonly ports: Pick<Ports, 'pool' | 'log' | 'timers'>
  readonly costs: CostUsage
  /** null: no key or team has a budget. */
  readonly budgets: Budgets | null
}

export class RequestCosts {
  readonly #parts: CostParts

  constructor(parts: CostParts) {
    this.#parts = parts
  }

  totals(): CostTotals {
    return this.#parts.costs.totals()
  }

  /** Charges a released booking once its pool has counted it. */
  charge(booking: ReleasedBooking): void {
    const { route, key, scope } = booking
    const { ports } = this.#parts
    const answer = poolOf(ports, route).costs?.costOf(key) ?? null
    // Pool state in this process answers at once.
    if (answer === null || (typeof answer === 'object' && 'engineS' in answer)) this.#add(booking, answer)
    else scope.background(this.#addLater(booking, answer))
  }

  async #addLater(booking: ReleasedBooking, first: CostAnswer | Promise<CostAnswer>): Promise<void> {
    const { ports } = this.#parts
    const { route, key, id, scope } = booking
    const timers = timersOf(scope, ports)
    try {
      let answer = await first
      for (const delayMs of ASK_AGAIN_MS) {
        if (answer !== 'open') break
        await new Promise<void>((resolve) => void timers.set(delayMs, resolve))
        answer = (await poolOf(ports, route).costs?.costOf(key)) ?? null
      }
      this.#add(booking, answer === 'open' ? null : answer)
    } catch (error) {
      ports.log.warn('request_cost_unknown', { id, error })
    }
  }

  /** @param cost null: the pool counts none, or has forgotten the booking */
  #add({ route, id, payer, caller, scope }: ReleasedBooking, cost: RequestCost | null): void {
    if (cost === null) return
    const { costs, ports, budgets } = this.#parts
    const price = route.pool.cost?.pricePerEngineHour ?? null
    const money = moneyOf(cost, price)
    costs.add(payer, cost, money)
    budgets?.charge(caller, { engineS: cost.engineS, money }, scope)
    if (!logsRequests(ports.log)) return
    ports.log.info('request_cost', {
      id,
      tenant: payer.key,
      ...(payer.team === null ? {} : { team: payer.team }),
      model: payer.model,
      engine_s: rounded(cost.engineS),
      saved_s: rounded(cost.savedS),
      ...(price === null ? {} : { money: rounded(money) }),
    })
  }
}

const rounded = (value: number): number => Math.round(value * 1e6) / 1e6
