/** Finds engines for one attempt: asks the clusters in order; each ranks and books in one call. */
import { preferRetryable, type Refusal } from '../core/contract/refusal.ts'
import type { Ports } from '../ports.ts'
import type { AcquiredPlacement } from './acquired-placement.ts'
import type { PoolDigests } from './pool-digests.ts'
import type { Exchange } from './exchange.ts'
import type { PoolRoute } from './pool-route.ts'
import type { AttemptHistory, Pass, PlacementContext } from './place-step.ts'

export async function acquirePlacement(
  exchange: Exchange,
  ports: Ports,
  digests: PoolDigests,
  history: AttemptHistory,
): Promise<AcquiredPlacement | { readonly refused: Refusal }> {
  const { hedgeIn } = history
  if (hedgeIn !== undefined) {
    const pass = { routes: [hedgeIn], isChosen: false, isLastResort: false, notes: [] }
    return placeOn(pass, exchange, { ports, digests, history })
  }
  const routes =
    exchange.pinned === null
      ? digests.order(exchange)
      : exchange.routes.filter((route) => route.cluster.id === exchange.pinned?.cluster)
  const isChosen = routes.length > 1
  const pass = { routes, isChosen, isLastResort: !isChosen, notes: [] }
  const placed = await placeOn(pass, exchange, { ports, digests, history })
  if (!('refused' in placed)) return placed
  // If no cluster has an engine with a closed circuit, engines with open circuits are allowed.
  const { mayPanic, notes } = placed
  const last =
    pass.isLastResort || mayPanic.length === 0
      ? placed
      : await placeOn({ routes: mayPanic, isChosen, isLastResort: true, notes }, exchange, { ports, digests, history })
  if (!('refused' in last)) return last
  const [waitRoute] = [...placed.mayWait, ...last.mayWait]
  if (waitRoute === undefined) return last
  const wait = { routes: [waitRoute], isChosen, isLastResort: true, waits: true, notes: last.notes }
  return placeOn(wait, exchange, { ports, digests, history })
}

interface NoPlacement {
  readonly refused: Refusal
  /** Pools that would serve it in panic mode. */
  readonly mayPanic: readonly PoolRoute[]
  /** Pools in which it may wait for room. */
  readonly mayWait: readonly PoolRoute[]
  readonly notes: readonly string[]
}

interface PassRefusals {
  readonly notes: string[]
  readonly mayPanic: PoolRoute[]
  readonly mayWait: PoolRoute[]
}

function addRefusal(
  { notes, mayPanic, mayWait }: PassRefusals,
  exchange: Exchange,
  route: PoolRoute,
  refusal: Refusal,
): void {
  if (refusal.mayPanic === true) mayPanic.push(route)
  if (canWait(exchange, route, refusal)) mayWait.push(route)
  notes.push(`failover=${route.cluster.id}:${refusal.reason}`)
}

async function placeOn(
  pass: Pass,
  exchange: Exchange,
  context: PlacementContext,
): Promise<AcquiredPlacement | NoPlacement> {
  const notes: string[] = [...pass.notes]
  const refusals: PassRefusals = { notes, mayPanic: [], mayWait: [] }
  let worst: Refusal | null = null
  for (const route of pass.routes) {
    const result = await context.history.placeOf(route)(pass, exchange, context, route)
    if (result === 'unknown_engine') notes.push(`failover=${route.cluster.id}:unknown_engine`)
    else if ('refusal' in result) {
      worst = preferRetryable(worst, result.refusal)
      addRefusal(refusals, exchange, route, result.refusal)
    } else return { ...result, notes: [...notes, ...result.notes] }
  }
  const refused = worst ?? { reason: 'no_engine', detail: 'no cluster serves this model', retryAfterMs: 1_000 }
  return { refused, ...refusals }
}

const canWait = ({ waits }: Exchange, { pool }: PoolRoute, { mayWait = false }: Refusal): boolean =>
  mayWait && waits !== undefined && pool.queue !== null
