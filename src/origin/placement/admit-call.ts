/** One call of a pool's state: ranks and books in one step. Without the state, a digest chooses. */
import type { Admission } from '../../core/contract/admission.ts'
import { endedAs } from '../../core/contract/outcome.ts'
import type { Refusal } from '../../core/contract/refusal.ts'
import { bookingKey } from '../../core/pool/bookings.ts'
import type { AdmitResult } from '../../ports/pool.ts'
import { DeadlineError, withDeadline } from '../../timeout.ts'
import { timersOf } from '../../timers.ts'
import type { PoolDigests } from '../digests/pool-digests.ts'
import type { Exchange } from '../exchange.ts'
import { type BookingParts, type Charge, LeaseKeeper, noCharge } from '../lease-keeper.ts'
import { oncePerPool } from '../once-per-pool.ts'
import { runningBookings } from '../pause/running-bookings.ts'
import { reportPoolEvents } from '../pool-alerts.ts'
import { poolOf, type PoolRoute } from '../pool-route.ts'
import type { AcquiredPlacement } from './acquired-placement.ts'
import type { UpstreamPorts } from '../upstream-ports.ts'

/** Time limit of `admit`, ms. A booking that arrives later is released. */
const ADMIT_MS = 2_000

const NO_NOTES: readonly string[] = []

export type AdmittedPlacement = Pick<
  AcquiredPlacement,
  'placement' | 'policy' | 'predictedTtftMs' | 'booking' | 'notes'
>

/** What a call of a pool needs, and the booking that it makes. */
export interface AdmitContext extends BookingParts {
  readonly ports: UpstreamPorts
  readonly route: PoolRoute
}

export function admitContext(
  exchange: Exchange,
  ports: UpstreamPorts,
  route: PoolRoute,
  admission: Admission,
): AdmitContext {
  return {
    pool: poolOf(ports, route),
    admission,
    leaseMs: route.pool.leaseMs,
    log: ports.log,
    timers: timersOf(exchange.scope, ports),
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

/** Admits synchronously. null: the ledger is not in this process. */
export function admitNow(parts: AdmitContext): AdmittedPlacement | { readonly refusal: Refusal } | null {
  const admitted = parts.pool.local?.admit(parts.admission) ?? null
  return admitted === null ? null : toPlacement(admitted, parts)
}

/** Admits where the ledger is. If it is late or unreachable, a digest chooses. */
export async function admitOn(
  ports: UpstreamPorts,
  digests: PoolDigests,
  route: PoolRoute,
  parts: AdmitContext,
): Promise<AdmittedPlacement | { readonly refusal: Refusal }> {
  const { pool, admission } = parts
  const limitMs = pool.remote?.admitLimitMs() ?? null
  try {
    return toPlacement(await admitInTime(pool.admit(admission, parts.scope), limitMs, parts), parts)
  } catch (error) {
    const isLate = limitMs !== null && limitMs < ADMIT_MS && error instanceof DeadlineError
    if (!isLate) ports.log.warn('pool_unreachable', { id: admission.id, cluster: route.cluster.id, error })
    // Without the object the retry budget is unknown.
    const placement = admission.second !== undefined ? null : digests.fallback(admission, route, isLate)
    if (placement === null)
      return {
        refusal: {
          reason: 'engines_unavailable',
          detail: 'the pool state is unreachable and no engine is left',
          retryAfterMs: 1_000,
        },
      }
    const context = isLate ? { ...parts, admission: withLateKey(admission) } : parts
    const booking = new LeaseKeeper(context, placement, null)
    if (isLate) booking.sendBooking()
    const note = isLate ? 'fallback=object_late' : 'fallback=object_unreachable'
    return { placement, policy: 'rendezvous', predictedTtftMs: null, booking, notes: [note] }
  }
}

/** Another key, because the late answer has a booking of this key, which is released. */
const withLateKey = (admission: Admission): Admission => ({ ...admission, id: `${admission.id}~` })

/** The placement with its booking, or the refusal. */
export function toPlacement(
  admitted: AdmitResult,
  parts: AdmitContext,
): AdmittedPlacement | { readonly refusal: Refusal } {
  if ('refusal' in admitted) return admitted
  const { ports, route, scope } = parts
  const { lease, placement, policy, predictedTtftMs, events = [] } = admitted
  if (events.length > 0) reportPoolEvents(ports, { cluster: route.cluster.id, pool: route.pool.model }, events, scope)
  return {
    placement,
    policy,
    predictedTtftMs,
    booking: new LeaseKeeper(parts, placement, lease),
    notes: NO_NOTES,
  }
}

/** Releases a lease that comes after the limit, also after the end of the response. */
async function admitInTime(
  admitting: Promise<AdmitResult>,
  limitMs: number | null,
  { timers, scope }: Pick<AdmitContext, 'timers' | 'scope'>,
): Promise<AdmitResult> {
  try {
    return await withDeadline(Math.min(limitMs ?? ADMIT_MS, ADMIT_MS), admitting, { timers })
  } catch (error) {
    if (error instanceof DeadlineError) {
      const abandoned = admitting.then(abandon).catch(() => {})
      scope?.background(abandoned)
    }
    throw error
  }
}

async function abandon(admitted: AdmitResult): Promise<void> {
  if (!('refusal' in admitted)) await admitted.lease.release(endedAs('abandoned'))
}
