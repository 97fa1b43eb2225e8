/** Finds engines for one attempt: asks the clusters in order; each ranks and books in one call. */
import { preferRetryable, type Refusal } from '../../core/contract/refusal.ts'
import type { Ports } from '../../ports.ts'
import type { AcquiredPlacement } from './acquired-placement.ts'
import type { PoolDigests } from '../pool-digests.ts'
import type { Exchange } from '../exchange.ts'
import type { PoolRoute } from '../pool-route.ts'
import type { AttemptHistory, PlacementContext } from './place-step.ts'
import { type Pass, passAfter, passOverOne, type RefusedPass, secondPass } from './placement-passes.ts'

/** Asks pass after pass (the transitions are in placement-passes.ts) until a pool has an engine or all refuse. */
export async function acquirePlacement(
  exchange: Exchange,
  ports: Ports,
  digests: PoolDigests,
  history: AttemptHistory,
): Promise<AcquiredPlacement | { readonly refused: Refusal }> {
  const context = { ports, digests, history }
  let pass = history.hedgeIn === undefined ? firstPass(exchange, digests) : secondPass(history.hedgeIn)
  for (;;) {
    const result = await askPools(pass, exchange, context)
    const next = 'refused' in result ? passAfter(pass, result) : null
    if (next === null) return result
    pass = next
  }
}

/** Over the pools that may serve the request, the best first. */
function firstPass(exchange: Exchange, digests: PoolDigests): Pass {
  const { pinned, routes } = exchange
  if (pinned === null) return digests.firstPass(exchange)
  return passOverOne(routes.filter(({ cluster }) => cluster.id === pinned.cluster))
}

/** Asks the pools of a pass in order. */
async function askPools(
  pass: Pass,
  exchange: Exchange,
  context: PlacementContext,
): Promise<AcquiredPlacement | (RefusedPass & { readonly refused: Refusal })> {
  const notes = [...pass.notes]
  const mayPanic: PoolRoute[] = []
  const mayWait: PoolRoute[] = []
  let worst: Refusal | null = null
  for (const route of pass.routes) {
    const result = await context.history.placeOf(route)(pass, exchange, context, route)
    if (result === 'unknown_engine') notes.push(`failover=${route.cluster.id}:unknown_engine`)
    else if ('refusal' in result) {
      const { refusal } = result
      worst = preferRetryable(worst, refusal)
      if (refusal.mayPanic === true) mayPanic.push(route)
      if (canWait(exchange, route, refusal)) mayWait.push(route)
      notes.push(`failover=${route.cluster.id}:${refusal.reason}`)
    } else return { ...result, notes: [...notes, ...result.notes] }
  }
  const refused = worst ?? { reason: 'no_engine', detail: 'no cluster serves this model', retryAfterMs: 1_000 }
  return { refused, mayPanic, mayWait, notes }
}

const canWait = ({ waits }: Exchange, { pool }: PoolRoute, { mayWait = false }: Refusal): boolean =>
  mayWait && waits !== undefined && pool.queue !== null
