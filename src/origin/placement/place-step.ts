import type { SecondKind } from '../../core/contract/admission.ts'
import type { EarlyLegRole } from '../../core/contract/legs.ts'
import type { Refusal } from '../../core/contract/refusal.ts'
import type { AcquiredPlacement } from './acquired-placement.ts'
import type { CurrentRoutes } from '../current-routes.ts'
import type { PoolDigests } from '../digests/pool-digests.ts'
import type { Exchange } from '../exchange.ts'
import type { PoolRoute } from '../pool-route.ts'
import type { Pass } from './placement-passes.ts'
import type { StageTimer } from '../stage-timer.ts'
import type { UpstreamPorts } from '../upstream-ports.ts'

/**
 * Asks one pool for engines. The result is no promise where the ledger is in this process and nothing has to be waited
 * for: a promise and its turn for each request cost as much as the ranking of a few engines.
 */
export type PlaceStep = (pass: Pass, search: PlacementSearch, route: PoolRoute) => PlaceResult | Promise<PlaceResult>

export type PlaceResult = AcquiredPlacement | { readonly refusal: Refusal } | 'unknown_engine'

/** Results of earlier attempts of the same request. */
export interface AttemptHistory {
  readonly attempt: number
  /** The next attempt is no retry: the earlier ones caused no work on an engine, or a drain moves the stream. */
  readonly skipsRetryBudget: boolean
  /** As in `Admission`. null: the engine of the final leg failed. */
  readonly failedLegs: readonly EarlyLegRole[] | null
  /** As in `Admission`. null: no engine has refused the request as too long. */
  readonly beyondContextTokens: number | null
  /** Cluster id → engines that failed this request. */
  readonly avoid: ReadonlyMap<string, readonly string[]>
  /** Those of `avoid` that were paused, asleep or loading: a request that waits may get them. Absent: none. */
  readonly away?: ReadonlySet<string>
  /** Regions of which gateways were full. Absent: none. */
  readonly full?: ReadonlySet<string | null> | undefined
}

/** A second engine, wanted beside one that still has the request. */
export interface SecondEngine {
  readonly kind: SecondKind
  /** The attempt that still runs. */
  readonly first: Pick<AcquiredPlacement, 'route' | 'engine' | 'attempt'>
}

/** What placement works with. */
export interface PlacementContext {
  readonly ports: UpstreamPorts
  readonly digests: PoolDigests
  /** Receives the time of lookups and admits. */
  readonly stages: StageTimer
  readonly stepsOf: (route: PoolRoute) => { readonly place: PlaceStep }
  /** Absent: the configuration does not change while requests run. */
  readonly currentRoutes?: CurrentRoutes | undefined
}

/** Search for the engine of one attempt. */
export interface PlacementSearch {
  readonly exchange: Exchange
  readonly context: PlacementContext
  readonly history: AttemptHistory
  /** undefined: no other engine has the request. */
  readonly second: SecondEngine | undefined
}
