/** Places a request on one pool: ranks and books in one call. */
import type { Admission } from '../../core/contract/admission.ts'
import { engineIdsOf, legsOf } from '../../core/contract/legs.ts'
import { endedAs } from '../../core/contract/outcome.ts'
import type { Placement } from '../../core/contract/placement.ts'
import { bookingKey } from '../../core/pool/bookings.ts'
import { serverIdOf } from '../../core/contract/rank-id.ts'
import type { Refusal } from '../../core/contract/refusal.ts'
import type { Ports } from '../../ports.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { AdmitResult } from '../../ports/pool.ts'
import type { Timers } from '../../ports/timers.ts'
import { DeadlineError, withDeadline } from '../../timeout.ts'
import { timersOf } from '../../timers.ts'
import type { AcquiredPlacement } from './acquired-placement.ts'
import type { PoolDigests } from '../digests/pool-digests.ts'
import { itemsToEncode } from '../disagg/encode-stage.ts'
import { idsOutside } from '../engine-address.ts'
import type { Exchange } from '../exchange.ts'
import { reportPoolEvents } from '../pool-alerts.ts'
import type { PoolRoute } from '../pool-route.ts'
import { type BookingParts, type Charge, LeaseKeeper, noCharge } from '../lease-keeper.ts'
import { oncePerPool } from '../once-per-pool.ts'
import type { Pass } from './placement-passes.ts'
import type { AttemptHistory, PlacementContext, PlaceResult, PlaceStep } from './place-step.ts'
import { targetOf } from '../rank-targets.ts'
import { wakeOne } from '../pause/engine-sleep.ts'
import { runningBookings } from '../pause/running-bookings.ts'
import { waitForRoom } from './wait-for-room.ts'

/** Time limit of `admit`, ms. A booking that arrives later is released. */
const ADMIT_MS = 2_000

/**
 * An object with a newer configuration than this edge may choose engines that the edge does not have. It is asked again
 * without these engines, up to this many.
 */
const MAX_UNKNOWN = 64

/** Pauses of a request that waits while the chosen engine is unknown here, ms: the first and the longest. */
const PAUSE_MS = [50, 1_000] as const

/** Places the request on one pool. The pool may choose engines that this configuration does not have, a few times. */
export const placeOnPool: PlaceStep = (pass, exchange, context, route) => {
  const search: PoolSearch = { pass, exchange, context, route, unknown: none, waitingSince: null }
  const first = ask(search)
  return first instanceof Promise || first === null ? askUntilKnown(search, first) : first
}

interface PoolSearch {
  readonly pass: Pass
  readonly exchange: Exchange
  readonly context: PlacementContext
  readonly route: PoolRoute
  /** Engines that the pool chose and that this configuration does not have. */
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
  const admission = admissionFor(search, (search.waitingSince ?? startedAt) - exchange.receivedAt)
  const parts = bookingParts(exchange, ports, route, admission)
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
    context: { ports, history },
    route,
  } = search
  history.stages.add(pass.waits ? 'gateway_queue' : 'admit', ports.now() - startedAt)
  if ('refusal' in admitted) return search.unknown.length === 0 ? admitted : withoutUnknown(admitted.refusal, search)
  const { placement } = admitted
  const engine = finalTarget(route, placement) ?? laterTarget(history, route, placement)
  // Engines that were discovered during the wait are not among those that the admission avoids.
  if (engine !== null && !(pass.waits && isOutside(placement, route, exchange)))
    return acquired(admitted, route, engine, admission)
  void admitted.booking.release(endedAs('abandoned'))
  ports.log.warn('placement_unknown', { id: exchange.id, cluster: route.cluster.id, placement })
  search.unknown = [...search.unknown, ...consideredIn(placement).filter((id) => !targetOf(route.targets, id))]
  return null
}

/** The refusal of a pool that was asked without the engines that are unknown here: they may be known a moment later. */
function withoutUnknown(
  refusal: Refusal,
  { pass, route, context: { history } }: PoolSearch,
): { readonly refusal: Refusal } {
  const { noEngineWaitMs = 0 } = route.pool.queue ?? {}
  const mayWait = !pass.waits && noEngineWaitMs > 0 && (history.attempt === 0 || history.moved)
  return { refusal: mayWait ? { ...refusal, mayWait } : refusal }
}

/** Target of an engine that was discovered while the request waited. null: there is none. */
function laterTarget({ currentRoutes }: AttemptHistory, route: PoolRoute, placement: Placement): EngineTarget | null {
  currentRoutes?.extend(route)
  return finalTarget(route, placement)
}

function acquired(
  { booking, placement, policy, predictedTtftMs, notes }: AdmittedPlacement,
  route: PoolRoute,
  engine: EngineTarget,
  { promptTokens, sequences }: Admission,
): AcquiredPlacement {
  return { route, engine, placement, policy, predictedTtftMs, booking, promptTokens, sequences, notes }
}

function bookingParts(exchange: Exchange, ports: Ports, route: PoolRoute, admission: Admission): AdmitContext {
  return {
    pool: ports.pool(route.cluster.id, route.pool.model),
    admission,
    leaseMs: route.pool.leaseMs,
    log: ports.log,
    timers: exchange.scope.timers ?? ports.timers,
    scope: exchange.scope,
    ports,
    route,
    runsIn: { cluster: route.cluster.id, pool: route.pool.model, bookings: runningBookings(ports.origin) },
    charge: chargesOf(route)(exchange, route),
  }
}

/** Charges the request with the costs of its bookings, in a pool that counts them. */
const chargesOf = oncePerPool(({ pool }): ((exchange: Exchange, route: PoolRoute) => Charge) =>
  pool.cost === null
    ? () => noCharge
    : (exchange, route) => (admission) => exchange.observer?.bookingReleased(exchange, route, bookingKey(admission)),
)

type AdmittedPlacement = Pick<AcquiredPlacement, 'placement' | 'policy' | 'predictedTtftMs' | 'booking' | 'notes'>

type AdmitContext = Omit<BookingParts, 'lease' | 'placement'> & {
  readonly ports: Ports
  readonly route: PoolRoute
  readonly runsIn: NonNullable<BookingParts['runsIn']>
  readonly charge: Charge
}

async function waitOn(
  search: PoolSearch,
  parts: AdmitContext,
  limitMs: number,
): Promise<AdmittedPlacement | { readonly refusal: Refusal }> {
  const { exchange, route } = search
  const { signal, scope, waits, longWait } = exchange
  const { pool, admission, timers, ports } = parts
  if (route.pool.wake === 'on_demand') scope.background(wakeOne(ports, route))
  const now = (): number => ports.now()
  const waitedMs = now() - search.waitingSince!
  const maxWaitMs = Math.max(0, Math.min(limitMs, waitLeftMs(search, now())))
  const limits = { maxWaitMs, waitedMs, signal, timers, now }
  const wait = waitForRoom({ ...limits, queue: pool.queue!, admission, scope, waits: waits! })
  return toPlacement(await (longWait?.during(wait) ?? wait), parts)
}

/** Admits synchronously. null: the ledger is not in this process. */
function admitNow(parts: AdmitContext): AdmittedPlacement | { readonly refusal: Refusal } | null {
  const admitted = parts.pool.local?.admit(parts.admission) ?? null
  return admitted === null ? null : toPlacement(admitted, parts)
}

async function admitOn(
  ports: Ports,
  digests: PoolDigests,
  route: PoolRoute,
  parts: AdmitContext,
): Promise<AdmittedPlacement | { readonly refusal: Refusal }> {
  const { pool, admission } = parts
  const limitMs = pool.remote?.admitLimitMs() ?? null
  try {
    return toPlacement(await admitInTime(pool.admit(admission, parts.scope), limitMs, parts.timers), parts)
  } catch (error) {
    const isLate = limitMs !== null && limitMs < ADMIT_MS && error instanceof DeadlineError
    if (!isLate) ports.log.warn('pool_unreachable', { id: admission.id, cluster: route.cluster.id, error })
    // Without the object the retry budget is unknown.
    const placement = admission.hedge === true ? null : digests.fallback(admission, route, isLate)
    if (placement === null)
      return {
        refusal: {
          reason: 'engines_unavailable',
          detail: 'the cluster is unreachable and no engine is left',
          retryAfterMs: 1_000,
        },
      }
    const context = isLate ? { ...parts, admission: withLateKey(admission) } : parts
    const booking = new LeaseKeeper({ ...context, lease: null, placement })
    if (isLate) booking.sendBooking()
    const note = isLate ? 'fallback=object_late' : 'fallback=object_unreachable'
    return { placement, policy: 'rendezvous', predictedTtftMs: null, booking, notes: [note] }
  }
}

/** Another key, because the late answer has a booking of this key, which is released. */
const withLateKey = (admission: Admission): Admission => ({ ...admission, id: `${admission.id}~` })

function toPlacement(
  admitted: AdmitResult,
  { pool, admission, leaseMs, log, timers, scope, ports, route, runsIn, charge }: AdmitContext,
): AdmittedPlacement | { readonly refusal: Refusal } {
  if ('refusal' in admitted) return admitted
  const { lease, placement, policy, predictedTtftMs, events = [] } = admitted
  if (events.length > 0) reportPoolEvents(ports, { cluster: route.cluster.id, pool: route.pool.model }, events, scope)
  return {
    placement,
    policy,
    predictedTtftMs,
    booking: new LeaseKeeper({ ports, pool, admission, leaseMs, log, timers, scope, lease, placement, runsIn, charge }),
    notes: none,
  }
}

const none: readonly string[] = []

/** Releases a lease that comes after the limit. */
async function admitInTime(
  admitting: Promise<AdmitResult>,
  limitMs: number | null,
  timers: Timers | undefined,
): Promise<AdmitResult> {
  try {
    return await withDeadline(Math.min(limitMs ?? ADMIT_MS, ADMIT_MS), admitting, { timers })
  } catch (error) {
    if (error instanceof DeadlineError) admitting.then(abandon).catch(() => {})
    throw error
  }
}

async function abandon(admitted: AdmitResult): Promise<void> {
  if (!('refusal' in admitted)) await admitted.lease.release(endedAs('abandoned'))
}

/** @param elapsedMs time since the request arrived */
function admissionFor(
  { pass, exchange, context: { history }, route, unknown }: PoolSearch,
  elapsedMs: number,
): Admission {
  const admission = exchange.source.admission(route)
  const avoided = avoidedIn(route, history, pass.waits)
  const outside = outsideOf(route, exchange)
  const avoidsNone = avoided.length + outside.length + unknown.length === 0
  // Optional fields are added afterwards: spreads of empty objects would double the cost of this function.
  const extended: { -readonly [Field in keyof Admission]: Admission[Field] } = {
    ...admission,
    configVersion: exchange.configVersion,
    attempt: history.attempt,
    avoid: avoidsNone ? none : [...avoided, ...outside, ...unknown],
    unsplittable: unsplittableIn(exchange, history) ?? admission.unsplittable,
    encodeItems: admission.encodeItems > 0 && history.secondIn === undefined ? itemsToEncode(exchange, route) : 0,
  }
  if (pass.asks.isLastResort === true) extended.isLastResort = true
  if (history.moved) extended.moved = true
  if (history.beyondContextTokens != null) extended.beyondContextTokens = history.beyondContextTokens
  if (history.attempt > 0 && history.failedLegs !== null) extended.failedLegs = history.failedLegs
  if (admission.ttftDeadlineMs !== undefined)
    extended.ttftDeadlineMs = Math.max(0, admission.ttftDeadlineMs - elapsedMs)
  if (exchange.stream && exchange.observe && exchange.protocol.stream !== null) extended.reportsOutput = true
  // The first token of a response that does not pass through the gateway is never seen.
  if (exchange.scope.delivery?.readsAnswer === false) extended.streams = false
  if (history.secondIn !== undefined) extended.hedge = true
  if (history.rescueFrom !== undefined) extended.rescueFrom = history.rescueFrom
  return extended
}

/** Engines that failed the request. One that waits may get those that were only away. */
function avoidedIn({ cluster }: PoolRoute, { avoid, away }: AttemptHistory, waits: boolean): readonly string[] {
  const avoided = avoid.get(cluster.id) ?? none
  return waits ? avoided.filter((id) => away?.has(id) !== true) : avoided
}

/** Engines that the request must not get. */
function outsideOf({ targets }: PoolRoute, { pinned, scope: { delivery } }: Exchange): readonly string[] {
  const outside = delivery?.subset == null ? none : idsOutside(targets, delivery.subset)
  if (pinned === null) return outside
  // A request bound to one engine avoids all others. What it is bound to is at the server, so any rank may answer.
  return [...[...targets.keys()].filter((id) => id !== serverIdOf(pinned.engine)), ...outside]
}

/** Whether the placement has an engine that the request must not get. */
function isOutside(placement: Placement, route: PoolRoute, exchange: Exchange): boolean {
  const outside = outsideOf(route, exchange)
  return (
    outside.length > 0 && engineIdsOf(placement).some((id) => outside.includes(id) || outside.includes(serverIdOf(id)))
  )
}

function unsplittableIn({ pinned, scope }: Exchange, { secondIn }: AttemptHistory): string | null {
  if (pinned !== null) return 'it is bound to one engine'
  if (scope.delivery?.changesAnswer === false) return 'the proxy does not return its response'
  return secondIn === undefined ? null : 'another attempt runs'
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
