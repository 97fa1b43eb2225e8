/** Finds engines for one attempt: asks the pools in order; each ranks and books in one call. */
import { isPoolFull, preferRetryable, type Refusal } from '../../core/contract/refusal.ts'
import { placeIn, type RegionPreference } from '../../core/routing/region-preference.ts'
import type { AcquiredPlacement } from './acquired-placement.ts'
import type { PoolDigests } from '../digests/pool-digests.ts'
import type { Exchange } from '../exchange.ts'
import type { PoolRoute } from '../pool-route.ts'
import type {
  AttemptHistory,
  PlacementContext,
  PlacementSearch,
  PlaceResult,
  PlaceStep,
  SecondEngine,
} from './place-step.ts'
import { type Pass, passAfter, passOverOne, type RefusedPass, secondPass } from './placement-passes.ts'

type Acquired = AcquiredPlacement | { readonly refusal: Refusal }

/**
 * Asks pass after pass (the transitions are in placement-passes.ts) until a pool has an engine or all refuse. The
 * result is no promise if the first pool places the request at once, as pool state in this process does.
 * @param second absent: no other engine has the request
 */
export function acquirePlacement(
  exchange: Exchange,
  context: PlacementContext,
  history: AttemptHistory,
  second?: SecondEngine,
): Acquired | Promise<Acquired> {
  const pass = second === undefined ? firstPass(exchange, context.digests) : secondPass(second.first.route)
  const search = { exchange, context, history, second }
  const [first] = pass.routes
  const placing = first === undefined || regionLimit(search) !== null ? null : ask(search, pass, first)
  return placing !== null && isPlaced(placing) ? withNotes(placing, pass.notes) : askPasses(search, pass, placing)
}

const ask = (search: PlacementSearch, pass: Pass, route: PoolRoute): ReturnType<PlaceStep> =>
  search.context.stepsOf(route).place(pass, search, route)

const isPlaced = (placing: ReturnType<PlaceStep>): placing is AcquiredPlacement =>
  !(placing instanceof Promise) && placing !== 'unknown_engine' && !('refusal' in placing)

/** @param firstResult of the first pool of the first pass. null: it was not called yet */
async function askPasses(
  search: PlacementSearch,
  initial: Pass,
  firstResult: ReturnType<PlaceStep> | null,
): Promise<Acquired> {
  const { exchange } = search
  let pass = initial
  let pending = firstResult
  for (;;) {
    const refusals = new PassRefusals(pass)
    const limit = regionLimit(search)
    for (const route of pass.routes) {
      if (limit?.excludes(route) === true) continue
      const placing = pending ?? ask(search, pass, route)
      pending = null
      const result = placing instanceof Promise ? await placing : placing
      if (result !== 'unknown_engine' && !('refusal' in result)) return withNotes(result, refusals.notes)
      refusals.add(route, result, exchange)
      if (result !== 'unknown_engine' && isPoolFull(result.refusal)) limit?.full(route)
    }
    const next = passAfter(pass, refusals)
    if (next === null) return { refusal: refusals.worst }
    pass = next
  }
}

const withNotes = (placed: AcquiredPlacement, notes: readonly string[]): AcquiredPlacement =>
  notes.length === 0 ? placed : { ...placed, notes: [...notes, ...placed.notes] }

/** Over the pools that may serve the request, the best first. */
function firstPass(exchange: Exchange, digests: PoolDigests): Pass {
  const { pinned, routes } = exchange
  if (pinned === null) return digests.firstPass(exchange)
  return passOverOne(routes.filter(({ cluster }) => cluster.id === pinned.cluster))
}

/** null: no region is kept from the request. */
function regionLimit({ exchange: { regionPreference }, history }: PlacementSearch): RegionLimit | null {
  return regionPreference?.whenFull === 'refuse' ? new RegionLimit(regionPreference, history.full) : null
}

/** Keeps a request from regions that are less preferred than a full one. */
class RegionLimit {
  readonly #preference: RegionPreference
  /** Last place in the order that may still be tried. */
  #last = Infinity

  /** @param full regions of which gateways have refused the request as full */
  constructor(preference: RegionPreference, full: ReadonlySet<string | null> | undefined) {
    this.#preference = preference
    for (const region of full ?? []) this.#last = Math.min(this.#last, placeIn(preference, region))
  }

  full(route: PoolRoute): void {
    this.#last = Math.min(this.#last, this.#placeOf(route))
  }

  excludes(route: PoolRoute): boolean {
    return this.#placeOf(route) > this.#last
  }

  #placeOf({ cluster }: PoolRoute): number {
    return placeIn(this.#preference, cluster.region)
  }
}

/** Refusals of the pools of one pass. */
class PassRefusals implements RefusedPass {
  readonly mayPanic: PoolRoute[] = []
  readonly mayWait: PoolRoute[] = []
  readonly notes: string[]
  #worst: Refusal | null = null

  constructor({ notes }: Pass) {
    this.notes = [...notes]
  }

  /** The refusal that the client gets if no pass follows. */
  get worst(): Refusal {
    return this.#worst ?? { reason: 'no_engine', detail: 'no cluster serves this model', retryAfterMs: 1_000 }
  }

  add(route: PoolRoute, refused: Exclude<PlaceResult, AcquiredPlacement>, exchange: Exchange): void {
    const reason = refused === 'unknown_engine' ? refused : refused.refusal.reason
    this.notes.push(`failover=${route.cluster.id}:${reason}`)
    if (refused === 'unknown_engine') return
    const { refusal } = refused
    this.#worst = preferRetryable(this.#worst, refusal)
    if (refusal.mayPanic === true) this.mayPanic.push(route)
    if (canWait(exchange, route, refusal)) this.mayWait.push(route)
  }
}

const canWait = ({ waitingRequests }: Exchange, { pool }: PoolRoute, { mayWait = false }: Refusal): boolean =>
  mayWait && waitingRequests !== null && pool.queue !== null
