/** Finds engines for one attempt: asks the clusters in order; each ranks and books in one call. */
import { type EarlyLegRole, partsOf } from '../core/contract/legs.ts'
import { type Admission, type ClusterDigest, endedAs, type Placement, type Refusal } from '../core/contract/contract.ts'
import { Failure } from '../failure.ts'
import type { Admitted, Timers, EngineTarget, Ports, RequestScope } from '../ports.ts'
import { LeaseKeeper, type BookingParts } from './lease-keeper.ts'
import { itemsToEncode } from './disagg/encode.ts'
import type { Exchange, PoolRoute } from './exchange.ts'
import type { InFlightPrompt } from './regions/estimator.ts'
import type { StageTimer } from './timers.ts'
import { DeadlineError, withDeadline } from '../timeout.ts'
import { waitForRoom } from './waiting-requests.ts'

/** Digests of clusters, read without a call. */
export interface Digests {
  /** Pools in the order in which they are tried. */
  order(exchange: Exchange): readonly PoolRoute[]
  /** Last digest of a cluster's pool. null: none. */
  latest(route: PoolRoute): ClusterDigest | null
  /** As `latest`. Requests a newer one in the background if it is old. */
  current(route: PoolRoute, scope: Pick<RequestScope, 'background'>): ClusterDigest | null
  /** Records a prompt that was sent there, for later choices. null: no estimate exists. */
  sent(route: PoolRoute, admission: Admission): InFlightPrompt | null
  /**
   * Chooses without the object, by rendezvous hashing with bounded load. null: no engine is left.
   * @param isLate the object is slow, not unreachable, so its cluster is not avoided
   */
  fallback(admission: Admission, route: PoolRoute, isLate?: boolean): Placement | null
}

/** Engines of one attempt and the booking that holds them. */
export interface AcquiredPlacement {
  readonly route: PoolRoute
  readonly placement: Placement
  readonly engine: EngineTarget
  readonly policy: string
  readonly predictedTtftMs: number | null
  readonly booking: LeaseKeeper
  readonly promptTokens: number
  /** Parallel answers (`n`, several prompts); undefined: one. */
  readonly sequences: number | undefined
  /** Entries of the decision header besides the id: `fallback=…`, `failover=…`. */
  readonly notes: readonly string[]
}

/** Results of earlier attempts of the same request. */
export interface AttemptHistory {
  readonly attempt: number
  /** They went to gateways that were full or out of reach. */
  readonly moved: boolean
  /** As in `Admission`. null: the engine of the final leg failed. */
  readonly failedLegs: readonly EarlyLegRole[] | null
  /** Cluster id → engines that failed this request. */
  readonly avoid: ReadonlyMap<string, readonly string[]>
  /** Receives the time of lookups and admits. */
  readonly stages: StageTimer
  /** The earlier attempt still runs in this pool, which is asked for a second engine. Absent: it failed. */
  readonly hedgeIn?: PoolRoute
}

/** Time limit of `admit`, ms. A booking that arrives later is released. */
const ADMIT_MS = 2_000

/**
 * An object with a newer configuration than this edge may choose engines that the edge does not have. It is asked again
 * without these engines, up to this many.
 */
const MAX_UNKNOWN = 64

export async function acquirePlacement(
  exchange: Exchange,
  ports: Ports,
  digests: Digests,
  past: AttemptHistory,
): Promise<AcquiredPlacement | { readonly refused: Refusal }> {
  const { hedgeIn } = past
  if (hedgeIn !== undefined) {
    const pass = { routes: [hedgeIn], isChosen: false, isLastResort: false, notes: [] }
    return placeOn(pass, exchange, { ports, digests, past })
  }
  const routes =
    exchange.pinned === null
      ? digests.order(exchange)
      : exchange.routes.filter((route) => route.cluster.id === exchange.pinned?.cluster)
  const isChosen = routes.length > 1
  const pass = { routes, isChosen, isLastResort: !isChosen, notes: [] }
  const placed = await placeOn(pass, exchange, { ports, digests, past })
  if (!('refused' in placed)) return placed
  // If no cluster has an engine with a closed circuit, engines with open circuits are allowed.
  const { mayPanic, notes } = placed
  const last =
    pass.isLastResort || mayPanic.length === 0
      ? placed
      : await placeOn({ routes: mayPanic, isChosen, isLastResort: true, notes }, exchange, { ports, digests, past })
  if (!('refused' in last)) return last
  const [room] = [...placed.mayWait, ...last.mayWait]
  if (room === undefined) return last
  const wait = { routes: [room], isChosen, isLastResort: true, waits: true, notes: last.notes }
  return placeOn(wait, exchange, { ports, digests, past })
}

interface Pass {
  readonly routes: readonly PoolRoute[]
  /** A cluster is chosen among several. */
  readonly isChosen: boolean
  /** Open circuits are ignored where too few engines are left. */
  readonly isLastResort: boolean
  /** The request waits for room. Absent: it does not. */
  readonly waits?: boolean
  readonly notes: readonly string[]
}

interface Refused {
  readonly refused: Refusal
  /** Pools that would serve it in panic mode. */
  readonly mayPanic: readonly PoolRoute[]
  /** Pools in which it may wait for room. */
  readonly mayWait: readonly PoolRoute[]
  readonly notes: readonly string[]
}

interface Refusals {
  readonly notes: string[]
  readonly mayPanic: PoolRoute[]
  readonly mayWait: PoolRoute[]
}

function addRefusal(
  { notes, mayPanic, mayWait }: Refusals,
  exchange: Exchange,
  route: PoolRoute,
  refusal: Refusal,
): void {
  if (refusal.mayPanic === true) mayPanic.push(route)
  if (canWait(exchange, route, refusal)) mayWait.push(route)
  notes.push(`failover=${route.cluster.id}:${refusal.reason}`)
}

interface Means {
  readonly ports: Ports
  readonly digests: Digests
  readonly past: AttemptHistory
}

async function placeOn(pass: Pass, exchange: Exchange, means: Means): Promise<AcquiredPlacement | Refused> {
  const { ports, digests, past } = means
  const { routes, isLastResort, isChosen } = pass
  const notes: string[] = [...pass.notes]
  const refusals: Refusals = { notes, mayPanic: [], mayWait: [] }
  let worst: Refusal | null = null
  for (const route of routes) {
    // The caches do not matter to a request that is bound to one engine.
    const lookups = exchange.pinned === null ? exchange.hints?.(route) : null
    if (lookups) past.stages.addAll(await lookups)
    let unknown: readonly string[] = none
    while (unknown.length < MAX_UNKNOWN) {
      const startedAt = ports.now()
      const base = admissionFor({ exchange, route, past, elapsedMs: startedAt - exchange.receivedAt }, unknown)
      const parts = bookingParts(exchange, ports, route, isLastResort ? { ...base, isLastResort } : base)
      const found =
        pass.waits === true
          ? await waitOn(exchange, ports, route, parts)
          : (admitNow(parts) ?? (await admitOn(ports, digests, route, parts)))
      past.stages.add(pass.waits === true ? 'gateway_queue' : 'admit', ports.now() - startedAt)
      if ('refusal' in found) {
        worst = preferRetryable(worst, found.refusal)
        addRefusal(refusals, exchange, route, found.refusal)
        break
      }
      const engine = targetOf(route, found.placement)
      const isGateway = engine?.isGateway === true
      const sent = engine !== null && (isGateway || isChosen) ? digests.sent(route, parts.admission) : null
      if (sent !== null) found.booking.sent(sent)
      // The ledger counts all engines behind another gateway as one.
      const predictedTtftMs = isGateway ? (sent?.expectedMs ?? null) : found.predictedTtftMs
      if (engine !== null)
        return {
          route,
          engine,
          placement: found.placement,
          policy: found.policy,
          predictedTtftMs,
          booking: found.booking,
          promptTokens: parts.admission.promptTokens,
          sequences: parts.admission.sequences,
          notes: [...notes, ...found.notes],
        }
      void found.booking.release(endedAs('abandoned'))
      ports.log.warn('placement_unknown', { id: exchange.id, cluster: route.cluster.id, placement: found.placement })
      unknown = [...unknown, ...namesIn(found.placement).filter((id) => !route.targets.has(id))]
    }
    if (unknown.length >= MAX_UNKNOWN) notes.push(`failover=${route.cluster.id}:unknown_engine`)
  }
  const refused = worst ?? { reason: 'no_engine', detail: 'no cluster serves this model', retryAfterMs: 1_000 }
  return { refused, ...refusals }
}

function bookingParts(exchange: Exchange, ports: Ports, route: PoolRoute, admission: Admission): Asking {
  return {
    cluster: ports.cluster(route.cluster.id, route.pool.model),
    admission,
    leaseMs: route.pool.leaseMs,
    log: ports.log,
    alarms: exchange.scope.alarms ?? ports.alarms,
    scope: exchange.scope,
  }
}

type Found = Pick<AcquiredPlacement, 'placement' | 'policy' | 'predictedTtftMs' | 'booking' | 'notes'>

type Asking = Omit<BookingParts, 'lease' | 'placement'>

const canWait = ({ waits }: Exchange, { pool }: PoolRoute, { mayWait = false }: Refusal): boolean =>
  mayWait && waits !== undefined && pool.queue !== null

async function waitOn(
  { signal, scope, waits }: Exchange,
  ports: Ports,
  { pool }: PoolRoute,
  parts: Asking,
): Promise<Found | { readonly refusal: Refusal }> {
  const { cluster, admission, alarms: timers } = parts
  const { maxWaitMs } = pool.queue!
  const now = (): number => ports.now()
  return foundIn(await waitForRoom({ cluster, admission, maxWaitMs, signal, scope, timers, waits: waits!, now }), parts)
}

/** Admits synchronously. null: the ledger is not in this process. */
function admitNow(parts: Asking): Found | { readonly refusal: Refusal } | null {
  const admitted = parts.cluster.admitNow?.(parts.admission) ?? null
  return admitted === null ? null : foundIn(admitted, parts)
}

async function admitOn(
  ports: Ports,
  digests: Digests,
  route: PoolRoute,
  parts: Asking,
): Promise<Found | { readonly refusal: Refusal }> {
  const { cluster, admission } = parts
  const limitMs = cluster.admitLimitMs?.() ?? null
  try {
    return foundIn(await admitInTime(cluster.admit(admission, parts.scope), limitMs, parts.alarms), parts)
  } catch (error) {
    const isLate = limitMs !== null && limitMs < ADMIT_MS && error instanceof DeadlineError
    if (!isLate) ports.log.warn('cluster_unreachable', { id: admission.id, cluster: route.cluster.id, error })
    // Without the object the retry budget is unknown.
    const placement = admission.hedge === true ? null : digests.fallback(admission, route, isLate)
    if (placement === null)
      return {
        refusal: {
          reason: 'engines_unavailable',
          detail: 'the cluster is out of reach and no engine is left',
          retryAfterMs: 1_000,
        },
      }
    const asking = isLate ? { ...parts, admission: afterwards(admission) } : parts
    const booking = new LeaseKeeper({ ...asking, lease: null, placement })
    if (isLate) booking.book()
    const note = isLate ? 'fallback=object_late' : 'fallback=object_unreachable'
    return { placement, policy: 'rendezvous', predictedTtftMs: null, booking, notes: [note] }
  }
}

/** Another key, because the late answer has a booking of this key, which is released. */
const afterwards = (admission: Admission): Admission => ({ ...admission, id: `${admission.id}~` })

function foundIn(
  admitted: Admitted,
  { cluster, admission, leaseMs, log, alarms, scope }: Asking,
): Found | { readonly refusal: Refusal } {
  if ('refusal' in admitted) return admitted
  const { lease, placement, policy, predictedTtftMs, events = [] } = admitted
  for (const { event, ...fields } of events) log.warn(event, { model: admission.model, ...fields })
  return {
    placement,
    policy,
    predictedTtftMs,
    booking: new LeaseKeeper({ cluster, admission, leaseMs, log, alarms, scope, lease, placement }),
    notes: none,
  }
}

const none: readonly string[] = []

/** Releases a lease that comes after the limit. */
async function admitInTime(
  admitting: Promise<Admitted>,
  limitMs: number | null,
  timers: Timers | undefined,
): Promise<Admitted> {
  try {
    return await withDeadline(Math.min(limitMs ?? ADMIT_MS, ADMIT_MS), admitting, { timers })
  } catch (error) {
    if (error instanceof DeadlineError) admitting.then(abandon).catch(() => {})
    throw error
  }
}

async function abandon(admitted: Admitted): Promise<void> {
  if (!('refusal' in admitted)) await admitted.lease.release(endedAs('abandoned'))
}

interface AdmissionParts {
  readonly exchange: Exchange
  readonly route: PoolRoute
  readonly past: AttemptHistory
  /** Time since the request arrived. */
  readonly elapsedMs: number
}

function admissionFor({ exchange, route, past, elapsedMs }: AdmissionParts, unknown: readonly string[]): Admission {
  const failed = past.avoid.get(route.cluster.id) ?? []
  const { pinned } = exchange
  // A request bound to one engine avoids all others.
  const others = pinned === null ? [] : [...route.targets.keys()].filter((id) => id !== pinned.engine)
  const admission = exchange.admission(route)
  const { ttftDeadlineMs: deadlineMs } = admission
  return {
    ...admission,
    configVersion: exchange.configVersion,
    attempt: past.attempt,
    ...(past.moved ? { moved: true } : {}),
    ...(past.attempt > 0 && past.failedLegs !== null ? { failedLegs: past.failedLegs } : {}),
    ...(deadlineMs === undefined ? {} : { ttftDeadlineMs: Math.max(0, deadlineMs - elapsedMs) }),
    avoid: [...failed, ...others, ...unknown],
    ...(past.hedgeIn === undefined ? {} : { hedge: true }),
    unsplittable: unsplittableIn(exchange, past) ?? admission.unsplittable,
    encodeItems: admission.encodeItems > 0 && past.hedgeIn === undefined ? itemsToEncode(exchange, route) : 0,
  }
}

function unsplittableIn({ pinned }: Exchange, { hedgeIn }: AttemptHistory): string | null {
  if (pinned !== null) return 'it is bound to one engine'
  return hedgeIn === undefined ? null : 'another attempt runs'
}

/** Engine of the final leg. null if an engine of the placement is unknown here. */
function targetOf({ targets }: PoolRoute, placement: Placement): EngineTarget | null {
  if (placement.kind === 'whole') return targets.get(placement.engine) ?? null
  return partsOf(placement).every(({ engine }) => targets.has(engine)) ? targets.get(placement.decode)! : null
}

function namesIn(placement: Placement): readonly string[] {
  return [...partsOf(placement).map(({ engine }) => engine), ...placement.runnersUp]
}

/** Returns the refusal that is worth a retry: a full pool before an unavailable one. */
function preferRetryable(a: Refusal | null, b: Refusal): Refusal {
  if (a === null) return b
  const order: readonly Refusal['reason'][] = [
    'overloaded',
    'engines_full',
    'retry_budget',
    'role_empty',
    'engines_unavailable',
    'no_engine',
    'unconfigured',
  ]
  return order.indexOf(b.reason) < order.indexOf(a.reason) ? b : a
}

function overloadedOf({ limit, detail }: Refusal, retryAfterMs: number): Failure {
  if (limit === 'deadline')
    return new Failure('deadline_unmet', 'No engine can send the first token before the deadline of this request.', {
      retryAfterMs,
      cause: detail,
    })
  return new Failure('overloaded', 'This model has more requests than it can serve in time. Try again later.', {
    retryAfterMs,
    cause: detail,
  })
}

export const BUDGET_EXHAUSTED =
  "this model's retry budget is exhausted, so no other engine was tried. Try again shortly."

/** Converts a refusal to the failure that the client gets. */
export function failureOf(refusal: Refusal): Failure {
  const retryAfterMs = Math.max(1, refusal.retryAfterMs)
  switch (refusal.reason) {
    case 'overloaded':
      return overloadedOf(refusal, retryAfterMs)
    case 'engines_full':
      return new Failure('engines_full', 'All engines for this model are full. Try again shortly.', {
        retryAfterMs,
        cause: refusal.detail,
      })
    case 'retry_budget':
      return new Failure('retry_budget', `The request failed, and ${BUDGET_EXHAUSTED}`, {
        retryAfterMs,
        cause: refusal.detail,
      })
    case 'role_empty':
      return new Failure(
        'role_empty',
        `No engine with ${refusal.emptyRole ?? 'a role this request needs'} is available.`,
        {
          retryAfterMs,
          cause: refusal.detail,
        },
      )
    case 'unconfigured':
    case 'no_engine':
    case 'engines_unavailable':
      return new Failure('no_engine', 'No engine is available for this model right now.', {
        retryAfterMs,
        cause: refusal.detail,
      })
  }
}
