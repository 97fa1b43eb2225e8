/** Places a request on one pool, and waits there if the pass does. */
import type { Admission } from '../../core/contract/admission.ts'
import { engineIdsOf, legsOf } from '../../core/contract/legs.ts'
import { endedAs } from '../../core/contract/outcome.ts'
import type { Placement } from '../../core/contract/placement.ts'
import type { Refusal } from '../../core/contract/refusal.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import { timersOf } from '../../timers.ts'
import { wakeOne } from '../pause/engine-sleep.ts'
import type { PoolRoute } from '../pool-route.ts'
import { targetOf } from '../rank-targets.ts'
import type { AcquiredPlacement } from './acquired-placement.ts'
import {
  admitContext,
  type AdmitContext,
  admitNow,
  admitOn,
  type AdmittedPlacement,
  toPlacement,
} from './admit-call.ts'
import { attemptAdmission, type AttemptParts, isOutside } from './attempt-admission.ts'
import type { PlacementContext, PlacementSearch, PlaceResult, PlaceStep } from './place-step.ts'
import { waitForRoom } from './wait-for-room.ts'

const none: readonly string[] = []

/**
 * An object with a newer configuration may choose engines that this gateway does not have. It is asked again without
 * these engines, up to this many.
 */
const MAX_UNKNOWN = 64

/** Pauses of a request that waits while the chosen engine is unknown here, ms: the first and the longest. */
const PAUSE_MS = [50, 1_000] as const

/** Places the request on one pool. The pool may choose engines that this configuration does not have, a few times. */
export const placeOnPool: PlaceStep = (pass, { exchange, context, history, second }, route) => {
  const search: PoolSearch = { pass, exchange, context, history, second, route, unknown: none, waitingSince: null }
  const first = ask(search)
  return first instanceof Promise || first === null ? askUntilKnown(search, first) : first
}

/** Search in one pool. */
interface PoolSearch extends AttemptParts, PlacementSearch {
  unknown: readonly string[]
  /** null: it does not wait. */
  waitingSince: number | null
}

/** One answer of the pool. null: an engine is unknown here, or may not be used. */
type PoolAnswer = Exclude<PlaceResult, 'unknown_engine'> | null

async function askUntilKnown(search: PoolSearch, first: PoolAnswer | Promise<PoolAnswer>): Promise<PlaceResult> {
  let result = await first
  if (result === null && search.pass.waits) result = await waitUntilKnown(search)
  while (result === null && search.unknown.length < MAX_UNKNOWN) result = await ask(search)
  return result ?? 'unknown_engine'
}

/**
 * Waits until the pool chooses an engine that this gateway knows. An unknown engine has left again since its discovery,
 * or this gateway discovers it a moment after the pool. Every second call asks for other engines, within a short limit.
 */
async function waitUntilKnown(search: PoolSearch): Promise<PoolAnswer> {
  const { exchange, context } = search
  const timers = timersOf(exchange.scope, context.ports)
  const [firstMs, longestMs] = PAUSE_MS
  for (let calls = 0; waitLeftMs(search, context.ports.now()) > 0; calls++) {
    await new Promise<void>((resolve) => timers.set(Math.min(longestMs, firstMs * 2 ** calls), resolve))
    const avoids = calls % 2 === 1
    if (!avoids) search.unknown = none
    const answer = await ask(search, avoids ? longestMs : Infinity)
    if (answer !== null && !(avoids && 'refusal' in answer)) return answer
  }
  return null
}

/** Rest of the longest wait: for an engine, or for the end of a pause, and then for room. */
function waitLeftMs({ route, waitingSince }: PoolSearch, now: number): number {
  const { maxWaitMs, noEngineWaitMs } = route.pool.queue!
  return Math.max(maxWaitMs, noEngineWaitMs) + maxWaitMs - (now - (waitingSince ?? now))
}

/** @param limitMs longest wait of this call */
function ask(search: PoolSearch, limitMs = Infinity): PoolAnswer | Promise<PoolAnswer> {
  const {
    pass: { waits },
    exchange,
    context: { ports, digests },
    route,
  } = search
  const startedAt = ports.now()
  if (waits) search.waitingSince ??= startedAt
  // The pool state subtracts the wait itself.
  const admission = attemptAdmission(search, (search.waitingSince ?? startedAt) - exchange.receivedAt)
  const parts = admitContext(exchange, ports, route, admission)
  const admitted = waits ? waitOn(search, parts, limitMs) : (admitNow(parts) ?? admitOn(ports, digests, route, parts))
  return admitted instanceof Promise
    ? admitted.then((late) => answered(late, search, admission, startedAt))
    : answered(admitted, search, admission, startedAt)
}

function answered(
  admitted: AdmittedPlacement | { readonly refusal: Refusal },
  search: PoolSearch,
  admission: Admission,
  startedAt: number,
): PoolAnswer {
  const {
    pass,
    exchange,
    context: { ports, stages, currentRoutes },
    route,
  } = search
  stages.add(pass.waits ? 'gateway_queue' : 'admit', ports.now() - startedAt)
  if ('refusal' in admitted) return search.unknown.length === 0 ? admitted : withoutUnknown(admitted.refusal, search)
  const { placement } = admitted
  const engine = finalTarget(route, placement) ?? laterTarget(currentRoutes, route, placement)
  // Engines that were discovered during the wait are not among those that the admission avoids.
  if (engine !== null && !(pass.waits && isOutside(placement, route, exchange)))
    return acquired(admitted, route, engine, admission)
  void admitted.booking.release(endedAs('abandoned'))
  ports.log.warn('placement_unknown', { id: exchange.id, cluster: route.cluster.id, placement })
  search.unknown = [...search.unknown, ...consideredIn(placement).filter((id) => !targetOf(route.targets, id))]
  return null
}

/** The refusal of a pool that was asked without the engines that are unknown here: they may be known a moment later. */
function withoutUnknown(refusal: Refusal, { pass, route, history }: PoolSearch): { readonly refusal: Refusal } {
  const { noEngineWaitMs = 0 } = route.pool.queue ?? {}
  const mayWait = !pass.waits && noEngineWaitMs > 0 && (history.attempt === 0 || history.skipsRetryBudget)
  return { refusal: mayWait ? { ...refusal, mayWait } : refusal }
}

/** Target of an engine that was discovered while the request waited. null: there is none. */
function laterTarget(
  currentRoutes: PlacementContext['currentRoutes'],
  route: PoolRoute,
  placement: Placement,
): EngineTarget | null {
  currentRoutes?.extend(route)
  return finalTarget(route, placement)
}

function acquired(
  { booking, placement, policy, predictedTtftMs, notes }: AdmittedPlacement,
  route: PoolRoute,
  engine: EngineTarget,
  { attempt, promptTokens, sequences }: Admission,
): AcquiredPlacement {
  return { route, engine, placement, policy, predictedTtftMs, booking, attempt, promptTokens, sequences, notes }
}

async function waitOn(
  search: PoolSearch,
  parts: AdmitContext,
  limitMs: number,
): Promise<AdmittedPlacement | { readonly refusal: Refusal }> {
  const { exchange, route } = search
  const { signal, scope, waitingRequests, longWait } = exchange
  const { pool, admission, timers, ports } = parts
  if (route.pool.wake === 'on_demand') scope.background(wakeOne(ports, route))
  const now = (): number => ports.now()
  const waitedMs = now() - search.waitingSince!
  const maxWaitMs = Math.max(0, Math.min(limitMs, waitLeftMs(search, now())))
  const limits = { maxWaitMs, waitedMs, signal, timers, now }
  const wait = waitForRoom({ ...limits, queue: pool.queue!, admission, scope, waitingRequests: waitingRequests! })
  return toPlacement(await (longWait?.during(wait) ?? wait), parts)
}

/** Engine of the final leg. null if an engine of the placement is unknown here. */
function finalTarget({ targets }: PoolRoute, placement: Placement): EngineTarget | null {
  if (placement.kind === 'whole') return targets.get(placement.engine) ?? targetOf(targets, placement.engine) ?? null
  const isKnown = legsOf(placement).every(({ engine }) => targetOf(targets, engine) !== undefined)
  return isKnown ? targetOf(targets, placement.decode)! : null
}

function consideredIn(placement: Placement): readonly string[] {
  return [...engineIdsOf(placement), ...placement.runnersUp]
}
