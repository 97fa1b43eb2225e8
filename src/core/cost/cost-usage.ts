import type { Mutable } from '../mutable.ts'
import { boundedName } from '../bounded-name.ts'
import type { RequestCost } from './request-cost.ts'

/** Costs of one key, team or model since the start. */
export interface CostCounts {
  /** Bookings: attempts of requests. */
  readonly attempts: number
  readonly engineS: number
  readonly savedS: number
  /** Money by `price_per_engine_hour`; 0 without a price. */
  readonly money: number
}

const KINDS = ['key', 'team', 'model'] as const

/** Who or what pays. */
type CostKind = (typeof KINDS)[number]

type CostsByName = Readonly<Record<string, CostCounts>>

export type CostTotals = Readonly<Record<CostKind, CostsByName>>

/** Whom a cost is charged to. */
export interface Payer {
  readonly key: string
  /** null: none. */
  readonly team: string | null
  readonly model: string
}

const SECONDS_PER_HOUR = 3600

/** Money for engine seconds. `pricePerEngineHour` null: none. */
export const moneyOf = ({ engineS }: Pick<RequestCost, 'engineS'>, pricePerEngineHour: number | null): number =>
  pricePerEngineHour === null ? 0 : (engineS / SECONDS_PER_HOUR) * pricePerEngineHour

/** Costs by key, team and model, for metrics and the admin API. */
export class CostUsage {
  readonly #names: Readonly<Record<CostKind, Map<string, Mutable<CostCounts>>>> = {
    key: new Map(),
    team: new Map(),
    model: new Map(),
  }

  add({ key, team, model }: Payer, cost: RequestCost, money: number): void {
    addCost(this.#countsOf('key', key), cost, money)
    if (team !== null) addCost(this.#countsOf('team', team), cost, money)
    addCost(this.#countsOf('model', model), cost, money)
  }

  /** A copy. */
  totals(): CostTotals {
    const listed = KINDS.map((kind) => {
      const names = Array.from(this.#names[kind], ([name, counts]) => [name, { ...counts }])
      return [kind, Object.fromEntries(names)]
    })
    return Object.fromEntries(listed) as CostTotals
  }

  #countsOf(kind: CostKind, name: string): Mutable<CostCounts> {
    const counts = this.#names[kind]
    const known = counts.get(name)
    if (known !== undefined) return known
    const bounded = boundedName(counts, name)
    const own = counts.get(bounded) ?? { attempts: 0, engineS: 0, savedS: 0, money: 0 }
    counts.set(bounded, own)
    return own
  }
}

function addCost(counts: Mutable<CostCounts>, cost: RequestCost, money: number): void {
  counts.attempts += 1
  counts.engineS += cost.engineS
  counts.savedS += cost.savedS
  counts.money += money
}

/** Adds the costs of two gateways. */
export function sumCosts(a: CostTotals, b: CostTotals): CostTotals {
  const summed = KINDS.map((kind) => {
    const names = new Set([...Object.keys(a[kind]), ...Object.keys(b[kind])])
    return [kind, Object.fromEntries(Array.from(names, (name) => [name, sumNamed(a[kind][name], b[kind][name])]))]
  })
  return Object.fromEntries(summed) as CostTotals
}

const sumNamed = (a: CostCounts | undefined, b: CostCounts | undefined): CostCounts | undefined =>
  a === undefined || b === undefined
    ? (a ?? b)
    : {
        attempts: a.attempts + b.attempts,
        engineS: a.engineS + b.engineS,
        savedS: a.savedS + b.savedS,
        money: a.money + b.money,
      }
