import { hasEnded, type RequestRecord } from '../core/reports/request-record.ts'
import type { ExchangeObserver } from '../origin/exchange.ts'
import type { PoolRoute } from '../origin/pool-route.ts'
import type { InferenceExchange } from './inference-exchange.ts'
import type { EdgePrompts } from './prompt/edge-prompts.ts'
import type { RequestCosts } from './request-costs.ts'
import type { RunningIds } from './running-ids.ts'

/** An exchange whose record is complete. */
type EndedExchange = InferenceExchange & { readonly record: RequestRecord }

/** Receives a request that has ended. */
export type RequestEnd = (exchange: EndedExchange) => void

interface ObserverParts {
  /** null: there are no edges, and no regions. */
  readonly edgePrompts: EdgePrompts | null
  readonly runningIds: RunningIds
  /** Receives each request at its end. */
  readonly end: RequestEnd
  /** null: no pool counts costs. */
  readonly costs: RequestCosts | null
}

/** Receives the ends of inference requests. One serves all of a gateway. */
export class InferenceObserver implements ExchangeObserver {
  readonly #parts: ObserverParts

  constructor(parts: ObserverParts) {
    this.#parts = parts
  }

  gatewayAnswered(route: PoolRoute, headers: readonly string[]): void {
    this.#parts.edgePrompts?.recordOffer(route, headers)
  }

  bookingReleased({ id, scope, inference: { caller } }: InferenceExchange, route: PoolRoute, key: string): void {
    const payer = { key: caller.tenant, team: caller.team?.name ?? null, model: route.pool.model }
    this.#parts.costs?.charge({ route, key, id, payer, caller, scope })
  }

  ended(exchange: InferenceExchange): void {
    const { record, routes, source, inference } = exchange
    const { cluster, model, usage } = record
    const route = routes.find((one) => one.cluster.id === cluster && one.pool.model === model)
    if (usage !== null && route !== undefined) source.learn(route, usage)
    inference.incoming.memory?.release()
    this.#parts.runningIds.release(exchange.engineRequestId)
    if (!isEnded(exchange)) throw new Error(`request ${record.id} has no result: fill in its record first`)
    this.#parts.end(exchange)
  }
}

const isEnded = (exchange: InferenceExchange): exchange is EndedExchange => hasEnded(exchange.record)
